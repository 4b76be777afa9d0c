"""The form and the thoughts that a client asks for, in a child's fields; each dialect's words for thinking come to the
same."""

import json

import pytest

from blazar.errors import RequestRefused
from blazar.proxy.dialects.shape import json_schema, response_format, thinking
from tests.support.wire import dialects

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}


@pytest.mark.parametrize(("wanted", "form", "schema"), [
    (None, None, None), ("", None, None), ("json", {"type": "json_object"}, {"type": "object"}),
    (SCHEMA, {"type": "json_schema", "json_schema": {"name": "format", "strict": True, "schema": SCHEMA}}, SCHEMA)])
def test_a_format(wanted, form, schema):
    assert (response_format(wanted), json_schema(wanted)) == (form, schema)


@pytest.mark.parametrize("wanted", ["xml", 7, [], True])
def test_what_is_no_format(wanted):
    with pytest.raises(RequestRefused, match="`format` must be"):
        response_format(wanted)


def test_nothing_is_said_of_thoughts_that_nobody_asked_about():
    assert thinking() == {} and thinking(None, "") == {}


def told(dialect, operation, **fields):
    body = json.dumps({"model": "m", **fields}).encode()
    exchange = dialects()[dialect].parse(operation, body, {}, "r")
    return {"chat_template_kwargs": json.loads(exchange.upstream_body)["chat_template_kwargs"]}


@pytest.mark.parametrize(("on", "effort"), [(False, ""), (True, "low"), (True, "high")])
def test_every_dialect_says_the_same(on, effort):
    turns = {"messages": [{"role": "user", "content": "hi"}]}
    expected = thinking(on, effort)
    assert told("ollama", "chat", **turns, think=effort or on) == expected
    assert told("ollama", "generate", prompt="hi", think=effort or on) == expected
    assert told("responses", "create", input="hi", reasoning={"effort": effort or "none"}) == expected
    assert told("anthropic", "messages", max_tokens=9, **turns, thinking={"type": "adaptive" if on else "disabled"},
                **({"output_config": {"effort": effort}} if effort else {})) == expected
