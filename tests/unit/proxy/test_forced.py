"""The form of a call that must be made, and the call out of what was written by it."""

import json

import pytest

from blazar.proxy.forced import LONGEST_HEAD, CallReader, form_of
from tests.support.wire import cut

SCHEMA = {"type": "object", "properties": {
    "$ref": {"type": "string"}, "default": {"$ref": "#/$defs/B"}, "const": {"const": {"$ref": "#/as it is"}},
    "list": {"items": [{"$ref": "#/$defs/B"}]}}, "$defs": {"B": {"$ref": "#/properties/list"}}}
ARGUMENTS = {"a": "}\\\"{", "b": [{}, [], "]"], "name": "x", "arguments": {"deep": {"c": None}}}


def test_the_only_tool_is_its_arguments():
    assert form_of({"f": SCHEMA}) is SCHEMA


def test_one_of_many_is_named_and_its_references_still_lead_somewhere():
    form = form_of({"f": {"type": "object"}, "g": SCHEMA})
    assert form["anyOf"][1] == {
        "type": "object", "properties": {"name": {"const": "g"}, "arguments": {"$ref": "#/$defs/tool1"}},
        "required": ["name", "arguments"], "additionalProperties": False}
    moved = form["$defs"]["tool1"]
    assert moved["properties"] == {
        "$ref": {"type": "string"}, "default": {"$ref": "#/$defs/tool1/$defs/B"},
        "const": {"const": {"$ref": "#/as it is"}}, "list": {"items": [{"$ref": "#/$defs/tool1/$defs/B"}]}}
    assert moved["$defs"]["B"] == {"$ref": "#/$defs/tool1/properties/list"}
    assert SCHEMA["$defs"]["B"] == {"$ref": "#/properties/list"}, "the client's own stays as it is"


def read(tools, pieces):
    """Name, arguments and words of what was written."""
    reader = CallReader(tools)
    found = [reader.feed(piece) for piece in pieces]
    return reader.name, "".join(more for more, _ in found), "".join(words for _, words in found) + reader.rest()


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("indent", [None, 1])
def test_a_call_is_read_however_it_is_cut(seed, indent):
    written = json.dumps({"name": 'f"\\é', "arguments": ARGUMENTS}, indent=indent) + " \n"
    pieces = [piece.decode("latin-1") for piece in cut(written.encode("latin-1"), seed)]
    name, arguments, words = read(["f", "g"], ["\n ", *pieces])
    assert (name, json.loads(arguments), words) == ('f"\\é', ARGUMENTS, "")
    assert read(["f"], pieces) == ("f", written, "")


@pytest.mark.parametrize(("written", "found"), [
    ("", ("", "", "")), (" \n", ("", "", "")), ("Hello {", ("", "", "Hello {")),
    ('{"name": "f", "argu', ("", "", '{"name": "f", "argu')),
    ('{"name": "\\x", "arguments": {}}', ("", "", '{"name": "\\x", "arguments": {}}')),
    ('{"name": "f", "arguments": {"a": {', ("f", '{"a": {', "")),
    ('{"city": "Rome"}', ("", "", '{"city": "Rome"}')),
    ('{"x": "' + "y" * LONGEST_HEAD, ("", "", '{"x": "' + "y" * LONGEST_HEAD))])
def test_what_is_no_whole_call_stays(written, found):
    assert read(["f", "g"], [written]) == found
    assert read(["f", "g"], list(written)) == found


def test_words_are_not_kept_back():
    reader = CallReader(["f", "g"])
    assert reader.feed(" H") == ("", "H") and reader.feed("i") == ("", "i")
    reader = CallReader(["f", "g"])
    assert reader.feed('{"x": "' + "y" * LONGEST_HEAD)[1] and reader.feed("z") == ("", "z")


def test_arguments_are_not_kept_back():
    reader = CallReader(["f", "g"])
    assert reader.feed('{"name":"f","arguments":{"a":') == ('{"a":', "")
    assert reader.feed("1") == ("1", "") and reader.feed("}") == ("}", "") and reader.feed("}") == ("", "")
