"""What a child is asked for a Responses request, and what is refused with which words."""

import json

import pytest

from blazar.errors import KnobRefused, RequestRefused
from blazar.proxy.dialects.responses_items import NO_RESULT
from tests.support.wire import dialects

TOOL = {"type": "function", "name": "f", "parameters": {"type": "object"}}
ASKED_TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
PATCH = {"type": "custom", "name": "patch", "description": "Changes files.",
         "format": {"type": "grammar", "syntax": "lark", "definition": "start: /a+/"}}
ASKED_PATCH = {"type": "function", "function": {
    "name": "patch", "description": "Changes files.\n\nIts input follows this grammar (lark):\nstart: /a+/",
    "parameters": {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"],
                   "additionalProperties": False}}}
PNG = "data:image/png;base64," \
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def opened(operation="create", **fields):
    body = json.dumps({"model": "M", "input": "hi", **fields}).encode()
    return dialects()["responses"].parse(operation, body, {}, "r1")


def asked(**fields):
    return json.loads(opened(**fields).upstream_body)


def turns(*items, **fields):
    return asked(input=list(items), **fields)["messages"]


def said(role, content):
    return {"role": role, "content": content}


def called(id, arguments="{}"):
    return {"type": "function_call", "call_id": id, "name": "f", "arguments": arguments}


def result(id, output="ok"):
    return {"type": "function_call_output", "call_id": id, "output": output}


@pytest.mark.parametrize(("fields", "expected"), [
    ({}, {}), ({"max_output_tokens": 5}, {"max_tokens": 5}),
    ({"temperature": 0, "top_p": 1}, {"temperature": 0, "top_p": 1}),
    ({"tools": [TOOL]}, {"tools": [ASKED_TOOL]}),
    ({"tools": [{"type": "web_search"}, TOOL, {"type": "tool_search"}]}, {"tools": [ASKED_TOOL]}),
    ({"tools": [{"type": "namespace", "name": "mcp", "description": "d", "tools": [TOOL]}]},
     {"tools": [{"type": "function", "function": {**ASKED_TOOL["function"], "name": "mcp__f"}}]}),
    ({"tools": [PATCH], "tool_choice": {"type": "custom", "name": "patch"}},
     {"tools": [ASKED_PATCH], "tool_choice": {"type": "function", "function": {"name": "patch"}}}),
    ({"tools": [TOOL], "tool_choice": "required"}, {"tools": [ASKED_TOOL], "tool_choice": "required"}),
    ({"tools": [TOOL], "tool_choice": {"type": "function", "name": "f"}},
     {"tools": [ASKED_TOOL], "tool_choice": {"type": "function", "function": {"name": "f"}}}),
    ({"tools": [TOOL, {**TOOL, "name": "g"}], "tool_choice": {
        "type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "f"}]}},
     {"tools": [ASKED_TOOL], "tool_choice": "required"}),
    ({"tool_choice": "auto", "parallel_tool_calls": True}, {}),
    ({"tools": [TOOL], "parallel_tool_calls": False}, {"tools": [ASKED_TOOL], "parallel_tool_calls": False}),
    ({"reasoning": {"effort": "none"}}, {"chat_template_kwargs": {"enable_thinking": False}}),
    ({"reasoning": {"effort": "low", "summary": "auto"}},
     {"chat_template_kwargs": {"enable_thinking": True, "reasoning_effort": "low"}}),
    ({"text": {"format": {"type": "text"}, "verbosity": "low"}}, {}),
    ({"text": {"format": {"type": "json_object"}}}, {"response_format": {"type": "json_object"}}),
    ({"text": {"format": {"type": "json_schema", "name": "n", "schema": {"a": 1}}}}, {"response_format": {
        "type": "json_schema", "json_schema": {"name": "n", "schema": {"a": 1}, "strict": True}}}),
    ({"store": None, "metadata": None, "background": False, "conversation": None, "truncation": "auto", "user": "u",
      "service_tier": "auto", "include": ["reasoning.encrypted_content"], "previous_response_id": ""}, {})])
def test_fields(fields, expected):
    assert asked(**fields) == {"model": "M", "stream": True, "stream_options": {"include_usage": True},
                               "messages": [said("user", "hi")], **expected}


def test_calls_of_custom_tools_and_of_namespaces_become_functions():
    calls = turns({"type": "custom_tool_call", "call_id": "1", "name": "patch", "input": "a\"b"},
                  {"type": "custom_tool_call_output", "call_id": "1", "output": "done"},
                  {**called("2"), "namespace": "mcp", "id": None, "status": None}, result("2", "ok"))
    assert [turn["role"] for turn in calls] == ["assistant", "tool"] * 2
    assert [calls[place]["tool_calls"][0]["function"] for place in (0, 2)] == [
        {"name": "patch", "arguments": '{"input":"a\\"b"}'}, {"name": "mcp__f", "arguments": "{}"}]
    assert [calls[place]["content"] for place in (1, 3)] == ["done", "ok"]


def test_a_response_tells_the_tools_that_the_model_was_given():
    draft = opened(tools=[TOOL, {"type": "web_search"}, PATCH]).draft
    assert draft.response["tools"] == [TOOL, PATCH] and list(draft.tools) == ["f", "patch"]


def test_instructions_are_the_first_system_text():
    assert turns(said("developer", "d"), said("user", "u"), instructions="i") == [
        said("system", "i"), said("system", "d"), said("user", "u")]


def test_images_and_words_become_parts():
    parts = [{"type": "input_text", "text": "what?"}, {"type": "input_image", "image_url": PNG, "detail": "auto"}]
    assert turns(said("user", parts)) == [said("user", [{"type": "text", "text": "what?"},
                                                        {"type": "image_url", "image_url": {"url": PNG}}])]


def test_what_the_model_said_in_one_go_is_one_turn_and_results_follow_their_calls():
    thought = {"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": "t"}]}
    two = [{"type": "input_text", "text": "two"}]
    calls = turns(said("user", "u"), thought, said("assistant", "a"), called("1"), called("2"), result("2", two),
                  result("1", "one"), called("3"), said("user", "v"))
    assert [turn["role"] for turn in calls] == ["user", "assistant", "tool", "tool", "assistant", "tool", "user"]
    assert (calls[1]["content"], calls[1]["reasoning_content"]) == ("a", "t")
    assert [turn["content"] for turn in calls if turn["role"] == "tool"] == ["one", "two", NO_RESULT]


def test_a_result_whose_call_came_earlier_needs_that_conversation():
    exchange = opened(input=[result("1")], previous_response_id="resp_1")
    exchange.dialect.follow(exchange, [{"id": "m", **called("1"), "status": "completed"}])
    assert [turn["role"] for turn in json.loads(exchange.upstream_body)["messages"]] == ["assistant", "tool"]
    with pytest.raises(RequestRefused, match="answers no call"):
        exchange.dialect.follow(opened(input=[result("1")], previous_response_id="resp_1"), [])
    with pytest.raises(RequestRefused, match="answers no call"):
        opened(input=[result("1")])
    with pytest.raises(RequestRefused, match="another"):
        opened(input=[called("1"), result("1"), result("1")])


def test_items_are_kept_with_type_and_id():
    items = opened(input=[said("user", "u"), {"id": "mine", **called("1")}, said("assistant", "a")]).draft.items
    assert [(item["id"], item["type"]) for item in items] == [
        ("msg_new0", "message"), ("mine", "function_call"), ("msg_new1", "message")]
    assert items[0]["content"] == [{"type": "input_text", "text": "u"}]
    assert items[2]["content"] == [{"type": "output_text", "text": "a"}]


def test_counting_asks_for_the_prompt_alone():
    exchange = opened("input_tokens", stream=True, tools=[TOOL], max_output_tokens=5)
    assert not exchange.stream and json.loads(exchange.upstream_body) == {
        "model": "M", "messages": [said("user", "hi")], "tools": [ASKED_TOOL]}


@pytest.mark.parametrize(("fields", "words"), [
    ({"background": True}, "`background`.*stream"), ({"conversation": "c"}, "previous_response_id"),
    ({"prompt": {"id": "p"}}, "instructions"), ({"top_logprobs": 3}, "/v1/chat/completions"),
    ({"include": ["message.output_text.logprobs"]}, "/v1/chat/completions"),
    ({"tools": [{"type": "web_search"}]}, "'web_search'.*tools of your own"),
    ({"input": [{"type": "item_reference", "id": "x"}]}, "previous_response_id"),
    ({"input": [{"type": "web_search_call"}]}, "'web_search_call'"),
    ({"input": [said("user", [{"type": "input_image", "file_id": "f"}])]}, "data: URL"),
    ({"input": [said("user", [{"type": "input_file", "file_id": "f"}])]}, "input_text")])
def test_what_is_not_here_is_refused_with_what_to_do(fields, words):
    with pytest.raises(KnobRefused, match=words):
        opened(**fields)


@pytest.mark.parametrize(("fields", "words"), [
    ({"input": None}, "`input` is missing"), ({"input": 5}, "`input` must be"), ({"input": [5]}, r"`input\[0\]`"),
    ({"input": [{}]}, r"input\[0\].type"), ({"input": [said("robot", "x")]}, "role"),
    ({"input": [said("user", [{"type": "text", "text": 5}])]}, r"input\[0\].content\[0\].text"),
    ({"input": [said("user", [{"type": "x"}])]}, "input_text"),
    ({"input": [said("user", [{"type": "input_image", "image_url": "http://10.0.0.1/x"}])]}, "nothing is fetched"),
    ({"input": [{"type": "function_call", "name": "f"}]}, "call_id"),
    ({"max_output_tokens": 0}, "max_output_tokens"), ({"store": "yes"}, "store"), ({"stream": 1}, "stream"),
    ({"truncation": "middle"}, "truncation"), ({"reasoning": {"effort": "huge"}}, "effort"),
    ({"text": {"format": {"type": "xml"}}}, "text.format.type"),
    ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema"),
    ({"tool_choice": "required"}, "needs `tools`"), ({"tool_choice": {"type": "function", "name": "g"}}, "tool_choice"),
    ({"tools": [{"type": "function"}]}, r"tools\[0\].name"), ({"previous_response_id": 5}, "previous_response_id"),
    ({"metadata": {str(number): "x" for number in range(17)}}, "metadata"), ({"metadata": {"a": 1}}, "metadata.a"),
    ({"metadata": {"a": "x" * 513}}, "metadata.a"), ({"metadata": {"a" * 65: "x"}}, "metadata")])
def test_what_is_wrong_is_named(fields, words):
    with pytest.raises(RequestRefused, match=words):
        opened(**fields)
