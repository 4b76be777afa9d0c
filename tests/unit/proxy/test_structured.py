"""The form that a child's request demands, what the engine must be sent for it, and what is refused, with which words.
"""

import pytest

from blazar.errors import RequestRefused, SchemaRefused
from blazar.proxy.structured import MOST, Constraint, constrain, demands

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
FORM = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
WHERE = "response_format.json_schema.schema"


@pytest.mark.parametrize(("dialect", "payload", "does"), [
    ("openai", {}, False), ("openai", {"response_format": None, "grammar": ""}, False),
    ("openai", {"tool_choice": "required"}, False), ("openai", {"tool_choice": {"type": "function"}}, True),
    ("openai", {"response_format": 7}, True), ("ollama", {"format": ""}, False), ("ollama", {"format": "json"}, True),
    ("ollama", {"tool_choice": {"type": "tool"}}, False), ("anthropic", {"tool_choice": {"type": "auto"}}, False),
    ("anthropic", {"output_config": {}}, True), ("anthropic", {"tool_choice": {"type": "tool"}}, True),
    ("responses", {"text": {"verbosity": "low"}}, False), ("responses", {"text": {"format": {}}}, False),
    ("responses", {"text": {"format": {"type": "json_object"}}}, True)])
def test_whether_anything_is_demanded(dialect, payload, does):
    assert demands(dialect, payload) == does


@pytest.mark.parametrize(("asked", "found"), [
    ({}, None), ({"response_format": {"type": "text"}}, None), ({"grammar": ""}, None),
    ({"response_format": {"type": "json_object"}}, Constraint("json_object")),
    ({"response_format": {"type": "json_object", "schema": SCHEMA}},
     Constraint("json_schema", SCHEMA, "response_format.schema")),
    ({"response_format": FORM}, Constraint("json_schema", SCHEMA, WHERE)),
    ({"json_schema": SCHEMA}, Constraint("json_schema", SCHEMA, "json_schema")),
    ({"grammar": "root ::= \"a\""}, Constraint("gbnf"))])
@pytest.mark.parametrize("chat", [False, True])
def test_what_is_demanded(asked, found, chat):
    constraint, amended = constrain(asked, chat)
    assert constraint == found
    assert amended is asked or (not chat and "response_format" in asked)


@pytest.mark.parametrize(("form", "schema"), [(FORM, SCHEMA), ({"type": "json_object"}, {"type": "object"})])
def test_completions_are_asked_in_the_word_they_know(form, schema):
    _, amended = constrain({"prompt": "x", "response_format": form}, chat=False)
    assert amended == {"prompt": "x", "response_format": None, "json_schema": schema}


@pytest.mark.parametrize(("asked", "words"), [
    ({"response_format": "json"}, "`response_format` must be"),
    ({"response_format": {"type": "xml"}}, "`response_format.type` must be"),
    ({"response_format": {"type": "json_schema"}}, f"`{WHERE}` must be a JSON schema"),
    ({"response_format": {"type": "json_schema", "json_schema": {"schema": []}}}, f"`{WHERE}` must be a JSON schema"),
    ({"json_schema": "x"}, "`json_schema` must be a JSON schema"), ({"grammar": 7}, "`grammar` must be"),
    ({"grammar": "x", "json_schema": SCHEMA}, "send one"), ({"response_format": FORM, "grammar": "x"}, "send one")])
def test_what_names_no_form(asked, words):
    with pytest.raises(RequestRefused, match=words.replace(".", r"\.")):
        constrain(asked, chat=True)


def referring(reference, **parts):
    return {"type": "object", "properties": {"a": {"$ref": reference}}, **parts}


@pytest.mark.parametrize(("schema", "problem"), [
    (referring("#"), "the whole schema"), (referring("https://example.com/a.json"), "nothing is fetched"),
    (referring("#name"), "not within this schema"), (referring("#/$defs/b", **{"$defs": {}}), "leads nowhere"),
    (referring("#/$defs/b", **{"$defs": {"b": {"$ref": "#/$defs/c"}, "c": {"$ref": "#/$defs/b"}}}), "leads nowhere"),
    (referring("#/$defs/b/7", **{"$defs": {"b": [1]}}), "leads nowhere"),
    ({"type": "string", "description": "x" * MOST}, "the limit is")])
def test_what_no_engine_can_be_held_to(schema, problem):
    with pytest.raises(SchemaRefused, match=problem) as raised:
        constrain({"json_schema": schema}, chat=True)
    assert "json_schema" in str(raised.value)


@pytest.mark.parametrize("schema", [
    referring("#/$defs/b", **{"$defs": {"b": {"type": "integer"}}}),
    referring("#/$defs/b", **{"$defs": {"b": {"anyOf": [{"$ref": "#/$defs/b"}, {"type": "null"}]}}}),
    referring("#/$defs/a~1b/0", **{"$defs": {"a/b": [{"type": "null"}]}}),
    {"enum": [{"$ref": "https://example.com"}]}, {"const": {"$ref": "#"}}])
def test_what_an_engine_can_be_held_to(schema):
    assert constrain({"json_schema": schema}, chat=True)[0] == Constraint("json_schema", schema, "json_schema")


def test_a_grammar_has_a_limit_too():
    with pytest.raises(SchemaRefused, match="grammar"):
        constrain({"grammar": "x" * (MOST + 1)}, chat=True)
