"""docs/responses.md says what the translator does: each row of its table is tried on the translator itself."""

import json
import re
import typing
from pathlib import Path

import pytest

from blazar.errors import KnobRefused
from tests.support.wire import buffered, chunk, dialects, sse

PAGE = (Path(__file__).parent.parent / "docs" / "responses.md").read_text()
SECTION = PAGE.partition("## Fields of a request\n")[2].partition("\n## ")[0]
FATES = dict(re.findall(r"^\| `([\w.]+)` \| (\w+) \| ", SECTION, re.MULTILINE))
TOOLS = [{"type": "function", "name": "f"}, {"type": "function", "name": "g"}]
FORCED = {"type": "function", "name": "f"}
SCHEMA = {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}}}
PAIRS = {
    # field: two requests that differ in it
    "model": ({}, {"model": "n"}), "input": ({}, {"input": "ho"}), "instructions": ({}, {"instructions": "x"}),
    "previous_response_id": ({}, {"previous_response_id": "resp_1"}), "stream": ({}, {"stream": True}),
    "tools": ({}, {"tools": TOOLS}), "tool_choice": ({"tools": TOOLS}, {"tools": TOOLS, "tool_choice": FORCED}),
    "parallel_tool_calls": ({"tools": TOOLS}, {"tools": TOOLS, "parallel_tool_calls": False}),
    "temperature": ({}, {"temperature": 0}), "top_p": ({}, {"top_p": 0.5}),
    "max_output_tokens": ({}, {"max_output_tokens": 5}), "text": ({}, {"text": SCHEMA}),
    "text.format": ({"text": {"format": {"type": "json_object"}}}, {"text": SCHEMA}),
    "text.verbosity": ({"text": SCHEMA}, {"text": {**SCHEMA, "verbosity": "low"}}),
    "reasoning": ({}, {"reasoning": {"effort": "low"}}),
    "reasoning.effort": ({"reasoning": {"effort": "low"}}, {"reasoning": {"effort": "none"}}),
    "reasoning.summary": ({"reasoning": {"effort": "low"}}, {"reasoning": {"effort": "low", "summary": "auto"}}),
    **{f"reasoning.{name}": ({"reasoning": {"effort": "low"}}, {"reasoning": {"effort": "low", name: "x"}})
       for name in ("generate_summary", "context", "mode")},
    "store": ({}, {"store": False}), "metadata": ({}, {"metadata": {"a": "b"}}),
    "truncation": ({"truncation": "disabled"}, {"truncation": "auto"}), "background": ({}, {"background": True}),
    "include": ({}, {"include": ["reasoning.encrypted_content"]}), "max_tool_calls": ({}, {"max_tool_calls": 3}),
    "stream_options": ({}, {"stream_options": {"include_obfuscation": False}}),
    **{field: ({}, {field: "x"}) for field, fate in FATES.items() if fate in ("ignored", "refused") and field not in (
        "text.verbosity", "reasoning.summary", "truncation", "background", "include", "max_tool_calls",
        "stream_options")},
}


def test_every_field_of_todays_client_is_on_the_page():
    pytest.importorskip("openai")
    from openai.types.responses import response_create_params
    assert set(typing.get_type_hints(response_create_params.ResponseCreateParamsBase)) - set(FATES) == set()
    assert set(FATES.values()) == {"passed", "translated", "ignored", "refused"} and set(PAIRS) == set(FATES)


def told(fields):
    """What a request comes to: the child's request, whether it streams, and what is kept."""
    body = {"model": "m", "input": "hi", **fields}
    exchange = dialects()["responses"].parse("create", json.dumps(body).encode(), {}, "r")
    kept = []
    exchange.keep = lambda response: bool(kept.append(response)) or exchange.draft.response["store"]
    answer = json.loads(buffered(exchange, sse([chunk("Hello")])))
    return (json.loads(exchange.upstream_body), exchange.stream, answer["store"], answer["metadata"],
            answer["previous_response_id"])


@pytest.mark.parametrize("field", PAIRS)
def test_the_fate_of_a_field_is_as_told(field):
    plain, other = PAIRS[field]
    if FATES[field] == "refused":
        with pytest.raises(KnobRefused):
            told(other)
    elif FATES[field] == "ignored":
        assert told(plain) == told(other)
    else:
        assert told(plain) != told(other)
