"""docs/responses.md says what becomes of each field of a request: each row is tried on the translator itself."""

import json
import re
import typing
from pathlib import Path

import pytest

from blazar.errors import RequestRefused
from tests.support.wire import dialects

PAGE = (Path(__file__).parent.parent / "docs" / "responses.md").read_text()
SECTION = PAGE.partition("## Fields of a request\n")[2].partition("\n## ")[0]
FATES = dict(re.findall(r"^\| `([\w.]+)` \| (\w+) \| ", SECTION, re.MULTILINE))
TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}}
RESULT = [{"type": "function_call_output", "call_id": "c", "output": "x"}]
TOOLS = {"tools": [TOOL]}
PAIRS = {
    # field: two requests that differ in it
    "model": ({}, {"model": "n"}), "input": ({}, {"input": "ho"}), "instructions": ({}, {"instructions": "x"}),
    "previous_response_id": ({"input": RESULT}, {"input": RESULT, "previous_response_id": "resp_1"}),
    "tools": ({}, TOOLS), "tool_choice": (TOOLS, {**TOOLS, "tool_choice": "required"}),
    "parallel_tool_calls": (TOOLS, {**TOOLS, "parallel_tool_calls": False}),
    "temperature": ({}, {"temperature": 0}), "top_p": ({}, {"top_p": 0.5}),
    "max_output_tokens": ({}, {"max_output_tokens": 7}), "stream": ({}, {"stream": True}),
    "text": ({}, {"text": {"format": {"type": "json_object"}}}),
    "text.format": ({"text": {"format": {"type": "text"}}}, {"text": {"format": {"type": "json_object"}}}),
    "text.verbosity": ({}, {"text": {"verbosity": "low"}}),
    "reasoning": ({}, {"reasoning": {"effort": "low"}}),
    "reasoning.effort": ({"reasoning": {"effort": "none"}}, {"reasoning": {"effort": "low"}}),
    "reasoning.summary": ({}, {"reasoning": {"summary": "auto"}}),
    "reasoning.generate_summary": ({}, {"reasoning": {"generate_summary": "auto"}}),
    "reasoning.context": ({}, {"reasoning": {"context": "all_turns"}}),
    "reasoning.mode": ({}, {"reasoning": {"mode": "pro"}}),
    "store": ({}, {"store": False}), "metadata": ({}, {"metadata": {"a": "b"}}),
    "truncation": ({"truncation": "disabled"}, {"truncation": "auto"}),
    "include": ({}, {"include": ["reasoning.encrypted_content"]}), "top_logprobs": ({}, {"top_logprobs": 2}),
    "user": ({}, {"user": "u"}), "max_tool_calls": ({}, {"max_tool_calls": 3}),
    **{name: ({}, {name: True}) for name in ("background",)},
    **{name: ({}, {name: {"a": "b"}}) for name in (
        "conversation", "prompt", "context_management", "moderation", "stream_options", "image", "access_programs",
        "background_options", "prompt_cache_options")},
    **{name: ({}, {name: "x"}) for name in (
        "safety_identifier", "service_tier", "prompt_cache_key", "prompt_cache_retention")},
}
KEPT = ("store", "metadata")
"""Fields of the response that say what becomes of it; the others only repeat the request."""


def outcome(fields):
    """All that a request asks, or "refused"."""
    body = json.dumps({"model": "m", "input": "hi", **fields}).encode()
    try:
        exchange = dialects()["responses"].parse("create", body, {}, "r")
    except RequestRefused:
        return "refused"
    return (json.loads(exchange.upstream_body), exchange.asked, exchange.stream,
            {name: exchange.draft.response[name] for name in KEPT})


def test_every_row_is_tried():
    assert set(PAIRS) == set(FATES)


@pytest.mark.parametrize("name", PAIRS)
def test_the_fate_of_a_field_is_as_told(name):
    before, after = map(outcome, PAIRS[name])
    expected = {"refused": after == "refused" != before, "ignored": after == before != "refused",
                "passed": after not in (before, "refused"), "translated": after not in (before, "refused")}
    assert expected[FATES[name]], (before, after)


def test_every_field_of_todays_client_is_on_the_page():
    pytest.importorskip("openai")
    from openai.types.responses.response_create_params import ResponseCreateParamsBase
    from openai.types.responses.response_text_config_param import ResponseTextConfigParam
    from openai.types.shared_params import Reasoning
    for kind, prefix in ((ResponseCreateParamsBase, ""), (ResponseTextConfigParam, "text."), (Reasoning, "reasoning.")):
        assert {prefix + name for name in typing.get_type_hints(kind)} - set(FATES) == set()
