"""docs/anthropic.md says what the translator does: each row of its tables is tried on the translator itself."""

import base64
import json
import re
import typing
from pathlib import Path

import pytest

from blazar.control import KEPT_DAYS
from blazar.errors import KnobRefused
from blazar.models import message_batch
from blazar.proxy.dialects import anthropic_batches
from blazar.proxy.dialects.anthropic_request import FIELDS, IGNORED, REFUSED
from blazar.proxy.routes import ROUTES
from tests.support.wire import buffered, chunk, dialects, sse

PAGE = (Path(__file__).parent.parent / "docs" / "anthropic.md").read_text()
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\nrest").decode()
HELLO = [{"role": "user", "content": "hi"}]
TOOL = {"name": "f", "input_schema": {"type": "object"}}
SCHEMA = {"type": "json_schema", "schema": {"type": "object"}}


def rows(heading):
    """The first cell and the others of each row of a section's table."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line.strip("|").split(" | ") for line in section.splitlines() if line.startswith("| `")]
    return [(re.findall(r"`([^`]+)`", first), *(cell.strip(" |") for cell in rest)) for first, *rest in lines]


FATES = {names[0]: (fate, told) for names, fate, told in rows("Fields of a request")}


def test_the_page_has_the_translators_own_table():
    assert {name: fate for name, (fate, _) in FATES.items() if "." not in name} == {
        name: field.fate for name, field in FIELDS.items()}
    for name, field in FIELDS.items():
        assert field.told in FATES[name][1], name


def test_every_field_of_todays_client_is_on_the_page():
    anthropic = pytest.importorskip("anthropic")
    from anthropic.types.beta import message_create_params as beta
    known = {"betas"}  # a header
    for kind in (anthropic.types.message_create_params.MessageCreateParamsBase, beta.MessageCreateParamsBase):
        known |= set(FATES)
        assert set(typing.get_type_hints(kind)) - known == set()
    for kind, prefix in ((anthropic.types.ToolParam, "tools[]."),
                         (anthropic.types.ToolChoiceToolParam, "tool_choice."),
                         (anthropic.types.ThinkingConfigEnabledParam, "thinking."),
                         (anthropic.types.OutputConfigParam, "output_config.")):
        assert {prefix + name for name in kind.__annotations__} - set(FATES) == set()


def asked(fields):
    """What a request comes to: the child's request, whether it streams, and a block of thinking in its answer."""
    body = {"model": "m", "max_tokens": 5, "messages": HELLO, **fields}
    exchange = dialects()["anthropic"].parse("messages", json.dumps(body).encode(), {}, "r")
    thought = json.loads(buffered(exchange, sse([chunk(reasoning_content="a")])))["content"]
    return json.loads(exchange.upstream_body), exchange.stream, thought


def one(**tool):
    return {"tools": [{**TOOL, **tool}]}


CHOICE = {"tools": [TOOL, {**TOOL, "name": "g"}]}
PAIRS = {
    # field: two requests that differ in it
    "model": ({}, {"model": "n"}), "max_tokens": ({}, {"max_tokens": 6}),
    "messages": ({}, {"messages": [{"role": "user", "content": "ho"}]}),
    "messages[].role": ({}, {"messages": [{"role": "assistant", "content": "hi"}]}),
    "messages[].content": ({}, {"messages": [{"role": "user", "content": [{"type": "text", "text": "ho"}]}]}),
    "system": ({}, {"system": "x"}), "tools": ({}, one()), "tools[].name": (one(), one(name="g")),
    "tools[].description": (one(), one(description="x")),
    "tools[].input_schema": (one(), one(input_schema={"type": "object", "$defs": {}})),
    "tools[].strict": (one(), one(strict=True)), "tools[].type": (one(), one(type="web_search_20250305")),
    "tools[].cache_control": (one(), one(cache_control={"type": "ephemeral"})),
    "tools[].defer_loading": (one(), one(defer_loading=True)),
    "tools[].allowed_callers": (one(), one(allowed_callers=["direct"])),
    "tools[].eager_input_streaming": (one(), one(eager_input_streaming=True)),
    "tools[].input_examples": (one(), one(input_examples=[{}])),
    "tool_choice": (CHOICE, {**CHOICE, "tool_choice": {"type": "any"}}),
    "tool_choice.type": ({**CHOICE, "tool_choice": {"type": "any"}}, {**CHOICE, "tool_choice": {"type": "none"}}),
    "tool_choice.name": ({**CHOICE, "tool_choice": {"type": "tool", "name": "f"}},
                         {**CHOICE, "tool_choice": {"type": "tool", "name": "g"}}),
    "tool_choice.disable_parallel_tool_use": (
        {**CHOICE, "tool_choice": {"type": "any"}},
        {**CHOICE, "tool_choice": {"type": "any", "disable_parallel_tool_use": True}}),
    "thinking": ({}, {"thinking": {"type": "adaptive"}}),
    "thinking.type": ({"thinking": {"type": "adaptive"}}, {"thinking": {"type": "disabled"}}),
    "thinking.budget_tokens": ({"thinking": {"type": "enabled"}},
                               {"thinking": {"type": "enabled", "budget_tokens": 9}}),
    "thinking.display": ({"thinking": {"type": "adaptive"}}, {"thinking": {"type": "adaptive", "display": "omitted"}}),
    "output_config": ({}, {"output_config": {"format": SCHEMA}}),
    "output_config.effort": ({}, {"output_config": {"effort": "low"}}),
    "output_config.format": ({}, {"output_config": {"format": SCHEMA}}),
    "output_format": ({}, {"output_format": SCHEMA}), "stop_sequences": ({}, {"stop_sequences": ["x"]}),
    "temperature": ({}, {"temperature": 0}), "top_p": ({}, {"top_p": 0.5}), "top_k": ({}, {"top_k": 3}),
    "stream": ({}, {"stream": True}), **{name: ({}, {name: {"type": "x"}}) for name, field in FIELDS.items()
                                          if field.fate in (IGNORED, REFUSED)},
}


def test_every_row_is_tried():
    assert set(PAIRS) == set(FATES)


@pytest.mark.parametrize("name", PAIRS)
def test_the_fate_of_a_field_is_as_told(name):
    plain, other = PAIRS[name]
    if FATES[name][0] == REFUSED:
        with pytest.raises(KnobRefused):
            asked(other)
    elif FATES[name][0] == IGNORED:
        assert asked(plain) == asked(other)
    else:
        assert asked(plain) != asked(other)


BLOCKS = {
    # type: an example, in whose turn, and what there is of it in the child's messages
    "text": ({"text": "MARK"}, "user", '"content":"MARK"'),
    "image": ({"source": {"type": "base64", "data": PNG}}, "user",
              f'"image_url":{{"url":"data:image/png;base64,{PNG}"'),
    "document": ({"source": {"type": "text", "data": "MARK"}, "title": "T"}, "user", r'"content":"T\nMARK"'),
    "search_result": ({"title": "t", "source": "s", "content": [{"type": "text", "text": "MARK"}]}, "user",
                      r'"content":"t\ns\nMARK"'),
    "thinking": ({"thinking": "MARK", "signature": ""}, "assistant", '"reasoning_content":"MARK"'),
    "redacted_thinking": ({"data": "MARK"}, "assistant", '"content":""'),
    "tool_use": ({"id": "t", "name": "f", "input": {"a": "MARK"}}, "assistant", r'"arguments":"{\"a\":\"MARK\"}"'),
    "tool_result": ({"tool_use_id": "t", "content": "MARK", "is_error": True}, "user",
                    '{"role":"tool","tool_call_id":"t","content":"Error: MARK"}'),
    "compaction": ({"content": "MARK"}, "user", '"content":"MARK"'),
}
LISTED = {name: told for names, told in rows("Blocks") for name in (names if "placeholder:" in told else names[:1])}


@pytest.mark.parametrize("kind", LISTED)
def test_the_fate_of_a_block_is_as_told(kind):
    example, role, wanted = BLOCKS.get(kind, ({"input": "MARK"}, "user", rf'[{kind}: {{\"input\":\"MARK\"}}]'))
    assert (kind in BLOCKS) == (not LISTED[kind].startswith("a placeholder"))
    upstream, *_ = asked({"messages": [{"role": role, "content": [{"type": kind, **example}]}]})
    told = json.dumps(upstream["messages"], separators=(",", ":"))
    assert wanted in told and ("MARK" in told) == (kind not in ("redacted_thinking", "image"))


def test_every_block_of_todays_client_is_on_the_page():
    pytest.importorskip("anthropic")
    from anthropic.types import ContentBlockParam
    from anthropic.types.beta import BetaContentBlockParam
    dicts = [kind for union in (ContentBlockParam, BetaContentBlockParam) for kind in typing.get_args(union)
             if hasattr(kind, "__total__")]
    kinds = {typing.get_args(typing.get_type_hints(kind)["type"])[0] for kind in dicts}
    assert len(kinds) > 15 and kinds - set(LISTED) == set()


def test_paths_and_limits_are_true():
    named = re.findall(r"`(GET|POST|DELETE) (/v1/[\w/{}]+)`", PAGE)
    paths = {(route.method, route.path.replace("{name}", "{id}")) for route in ROUTES}
    assert set(named) - paths == set() and {
        (route.method, route.path) for route in ROUTES if route.dialect == "anthropic"} - set(named) == set()
    assert f"{anthropic_batches.MOST:,} requests and {anthropic_batches.MOST_BYTES >> 20} MiB a batch" in PAGE
    assert f"{message_batch.MOST:,} batches and {message_batch.MOST_BYTES >> 20} MiB" in PAGE
    assert f"kept for {KEPT_DAYS} days" in PAGE and f"after {message_batch.LIFETIME // 3600} hours expires" in PAGE
