"""A client's schema as a judge of answers: what it finds, and what it leaves undecided."""

import http.server
import threading
import time

import pytest

from blazar.errors import SchemaRefused
from blazar.proxy.schemas import Flaw, Schema, Undecided

NODE = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "n": {"type": "integer"}}, "required": ["n"]}


def flaw(schema, value):
    return Schema(schema, "format").flaw(value)


@pytest.mark.parametrize(("schema", "value", "found"), [
    ({"type": "object"}, {}, None),
    ({"type": "object", "required": ["a"]}, {}, Flaw("", "'a' is a required property")),
    ({"$defs": {"node": NODE}, "$ref": "#/$defs/node"}, {"n": 1, "next": {"n": 2}}, None),
    ({"$defs": {"node": NODE}, "$ref": "#/$defs/node"}, {"n": 1, "next": {"n": "x"}},
     Flaw("next.n", "'x' is not of type 'integer'")),
    ({"items": {"type": "null"}}, [None, 1], Flaw("[1]", "1 is not of type 'null'")),
    ({"items": [{"type": "null"}]}, [1], Flaw("[0]", "1 is not of type 'null'")),  # as older drafts say it
    ({"minimum": 3}, 2, Flaw("", "2 is less than the minimum of 3")),
    ({"pattern": "^a+$"}, "ab", Flaw("", "'ab' does not match '^a+$'")),
    ({"pattern": "(a+)+$", "type": "string"}, 5, Flaw("", "5 is not of type 'string'")),
    ({"patternProperties": {"^a": {"type": "null"}}, "additionalProperties": False}, {"ab": None}, None),
    ({"uniqueItems": True}, [1, 2, 1], Flaw("", "[1, 2, 1] has non-unique elements")),
    ({"properties": {"$schema": {"type": "null"}}}, {"$schema": 1}, Flaw("$schema", "1 is not of type 'null'")),
    ({"const": {"$id": "a"}}, {"$id": "a"}, None),
])
def test_what_is_found(schema, value, found):
    assert flaw(schema, value) == found


@pytest.mark.parametrize(("schema", "place"), [
    ({"type": "nonsense"}, "format.type"), ({"required": "a"}, "format.required"), ({"properties": []}, "format.prop"),
    ({"properties": {"a": {"minLength": -1}}}, "format.properties.a.minLength"),
])
def test_what_is_no_schema(schema, place):
    with pytest.raises(SchemaRefused, match=place):
        Schema(schema, "format")


DOUBLING = {"$ref": "#/$defs/d0", "$defs": {f"d{level}": {"anyOf": [{"$ref": f"#/$defs/d{level + 1}"}] * 2}
                                            for level in range(40)} | {"d40": {"type": "null"}}}


@pytest.mark.parametrize(("schema", "value"), [
    (DOUBLING, 1),
    ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, 1),
    ({"pattern": "(a+)+$"}, "a" * 40 + "b"),
    ({"patternProperties": {"(a+)+$": {}}}, {"a" * 40 + "b": 1}),
    ({"uniqueItems": True}, [{"n": number} for number in range(5000)]),
    ({"items": {"type": "integer"}}, list(range(200_000))),
    ({"$ref": "#/$defs/nowhere"}, 1),
], ids=["doubling", "ring", "pattern", "keys", "unique", "long", "nowhere"])
def test_nothing_takes_for_ever(schema, value):
    paused = []
    began = time.monotonic()
    with pytest.raises(Undecided):
        Schema(schema, "format", lambda: paused.append(1)).flaw(value)
    assert time.monotonic() - began < 60
    assert paused or schema is not DOUBLING, "others had their turn"


def test_nothing_is_fetched():
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append(self.path)
            self.send_error(404)

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        url = f"http://127.0.0.1:{server.server_port}"
        for schema in ({"$ref": f"{url}/x"}, {"$schema": f"{url}/s", "type": "null"}, {"$id": f"{url}/i", "$ref": "y"},
                       {"properties": {"a": {"$id": f"{url}/j", "$ref": "y"}}}):
            try:
                flaw(schema, {"a": 1})
            except Undecided:
                pass
        server.shutdown()
    assert asked == []
