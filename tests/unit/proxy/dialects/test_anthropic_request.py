"""What an Anthropic request asks of the child."""

import base64
import json

import pytest

from blazar.errors import KnobRefused, RequestRefused
from tests.support.wire import dialects

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\nrest").decode()
HELLO = [{"role": "user", "content": "hi"}]
TOOL = {"name": "f", "description": "d", "input_schema": {"type": "object", "$defs": {"B": {"type": "integer"}}}}
OTHER = {"name": "g", "input_schema": {"type": "object"}}


def parse(**fields):
    body = json.dumps({"model": "m", "max_tokens": 5, "messages": HELLO, **fields}).encode()
    return dialects()["anthropic"].parse("messages", body, {}, "r1")


def asked(**fields):
    """The child's request, without what every request has."""
    exchange = parse(**fields)
    assert exchange.upstream_path == "/v1/chat/completions"
    upstream = json.loads(exchange.upstream_body)
    assert (upstream.pop("model"), upstream.pop("max_tokens"), upstream.pop("stream")) == ("m", 5, True)
    assert upstream.pop("stream_options") == {"include_usage": True}
    return upstream


def turns(*messages, **fields):
    return asked(messages=list(messages), **fields)["messages"]


def user(*blocks):
    return {"role": "user", "content": list(blocks)}


def words(text):
    return {"type": "text", "text": text}


@pytest.mark.parametrize(("fields", "why"), [
    ({"model": ""}, "`model`"), ({"model": None}, "`model` is missing"),
    ({"max_tokens": None}, "`max_tokens` is missing"),
    ({"max_tokens": 0}, "at least 1, not 0"), ({"max_tokens": "5"}, "`max_tokens`"), ({"max_tokens": True}, "not true"),
    ({"max_tokens": 1.5}, "`max_tokens`"), ({"messages": []}, "at least one"), ({"messages": None}, "at least one"),
    ({"messages": {}}, "`messages` must be a list"), ({"messages": [{"content": "x"}]}, r"`messages\[0\].role`"),
    ({"messages": [{"role": ["user"], "content": "x"}]}, "role"),
    ({"messages": [{"role": "tool", "content": "x"}]}, 'user or assistant, not "tool"'),
    ({"messages": [user(7)]}, r"`messages\[0\].content\[0\]` must be an object, not 7"),
    ({"messages": [user({"text": "x"})]}, r"`messages\[0\].content\[0\].type`"),
    ({"messages": [user({"type": "text", "text": 5})]}, r"`messages\[0\].content\[0\].text` must be a string"),
    ({"system": 5}, "`system`"), ({"system": [{"type": "image"}]}, r"`system\[0\].type` must be"),
    ({"stop_sequences": "STOP"}, "`stop_sequences` must be a list of strings"),
    ({"stop_sequences": [1]}, "a string, not 1"),
    ({"temperature": "hot"}, "`temperature`"), ({"stream": "yes"}, "`stream`"), ({"tools": [{}]}, r"`tools\[0\].name`"),
    ({"tool_choice": "auto"}, "`tool_choice` must be an object"),
    ({"tool_choice": {"type": "x"}}, "auto, any, none or tool"),
    ({"tools": [TOOL], "tool_choice": {"type": "tool"}}, "`tool_choice.name` is missing"),
    ({"tools": [TOOL], "tool_choice": {"type": "auto", "disable_parallel_tool_use": 1}}, "`tool_choice.disable_para"),
    ({"tools": [{**TOOL, "strict": "x"}]}, r"`tools\[0\].strict`"),
    ({"tools": [{**TOOL, "type": 5}]}, r"`tools\[0\].type`"),
    ({"tools": [TOOL], "tool_choice": {"type": "tool", "name": "g"}}, 'one of `tools`, not "g"'),
    ({"tool_choice": {"type": "any"}}, "needs `tools`"), ({"thinking": {"type": "some"}}, "`thinking.type`"),
    ({"messages": [user({"type": "image", "source": {"type": "base64", "data": "!!!"}})]}, "not base64"),
    *(({"messages": [user({"type": "image", "source": source})]}, "fetches nothing.*base64")
      for source in [{"type": "url", "url": url} for url in ("http://127.0.0.1/", "https://example.com/x.png",
                                                             "file:///etc/hostname", "")]),
    ({"messages": [user({"type": "image", "source": {"type": "file", "file_id": "f"}})]}, "keeps no files"),
    ({"messages": [user({"type": "image"})]}, "source.type` must be base64"),
    *(({"messages": [user({"type": "document", "source": {"type": kind}})]}, why)
      for kind, why in [("base64", "not PDF; take the text"), ("url", "fetches nothing"), ("file", "keeps no files"),
                        (None, r"`messages\[0\].content\[0\].source.type` must be text or content")]),
    ({"thinking": {"type": "enabled", "budget_tokens": 0}}, "`thinking.budget_tokens` must be a whole number, at"),
    ({"thinking": {"type": "enabled", "budget_tokens": "9"}}, "`thinking.budget_tokens`"),
    ({"thinking": {"type": "adaptive", "display": "loud"}}, "summarized or omitted"),
    ({"output_config": {"effort": "huge"}}, "`output_config.effort` must be low"),
    ({"mcp_servers": [{"type": "url"}]}, "`mcp_servers` is not available here"),
    ({"container": "c"}, "`container`"), ({"thread": {"id": "t"}}, "`thread`"),
    ({"output_config": {"format": {"type": "xml"}}}, "output_config.format.type")])
def test_refusals_name_the_field(fields, why):
    with pytest.raises(RequestRefused, match=why):
        parse(**fields)


def test_max_tokens_must_be_there():
    with pytest.raises(RequestRefused, match="`max_tokens` is missing"):
        dialects()["anthropic"].parse("messages", b'{"model":"m","messages":[]}', {}, "r1")


def test_nulls_are_absent():
    nulls = dict.fromkeys(["system", "stop_sequences", "temperature", "top_p", "top_k", "tools", "tool_choice",
                           "thinking", "stream", "metadata", "output_format"])
    assert asked(**nulls) == {"messages": HELLO} and parse(**nulls).stream is False


def test_sampling_and_stops():
    stops = ["STOP", "\n\nHuman:"]
    assert asked(temperature=0, top_p=0.5, top_k=3, stop_sequences=stops, metadata={"user_id": "x"}) == {
        "messages": HELLO, "temperature": 0, "top_p": 0.5, "top_k": 3, "stop": stops, "verbose": True}
    assert asked(stop_sequences=[]) == {"messages": HELLO}


@pytest.mark.parametrize("system", ["a\nb", [words("a"), {**words("b"), "cache_control": {"type": "ephemeral"}}]])
def test_system_comes_first(system):
    assert asked(system=system)["messages"] == [{"role": "system", "content": "a\nb"}, *HELLO]


def test_the_developer_is_the_system():
    assert turns({"role": "developer", "content": "Be brief."}, *HELLO)[0] == {"role": "system", "content": "Be brief."}


def test_thinking():
    enabled = {"type": "enabled", "budget_tokens": 1024}
    found = asked(thinking=enabled)
    assert (found["chat_template_kwargs"], found["thinking_budget_tokens"]) == ({"enable_thinking": True}, 1024)
    adaptive = asked(thinking={"type": "adaptive"})
    assert adaptive == {"messages": HELLO, "chat_template_kwargs": {"enable_thinking": True}}
    assert asked(thinking={"type": "disabled"})["chat_template_kwargs"] == {"enable_thinking": False}


def test_effort_goes_to_the_template_beside_the_switch():
    assert asked(output_config={"effort": "low"}, thinking={"type": "adaptive"})["chat_template_kwargs"] == {
        "enable_thinking": True, "reasoning_effort": "low"}


def test_what_is_refused_may_be_there_and_empty():
    assert asked(mcp_servers=[], container=None) == {"messages": HELLO}


@pytest.mark.parametrize("fields", [{"output_config": {"format": {"type": "json_schema", "schema": {"$defs": {}}}}},
                                    {"output_format": {"type": "json_schema", "schema": {"$defs": {}}}}])
def test_a_schema_arrives_whole(fields):
    assert asked(**fields)["response_format"]["json_schema"]["schema"] == {"$defs": {}}


# -- tools ---------------------------------------------------------------------------------------------


def test_tools():
    assert asked(tools=[TOOL])["tools"] == [{"type": "function", "function": {
        "name": "f", "description": "d", "parameters": TOOL["input_schema"]}}]


@pytest.mark.parametrize(("choice", "wanted"), [
    ({"type": "auto"}, {"tool_choice": "auto"}), ({"type": "any"}, {"tool_choice": "required"}),
    ({"type": "none"}, {"tool_choice": "none"}),
    ({"type": "auto", "disable_parallel_tool_use": True}, {"tool_choice": "auto", "parallel_tool_calls": False})])
def test_tool_choice(choice, wanted):
    found = asked(tools=[TOOL, OTHER], tool_choice=choice)
    assert {key: found[key] for key in found if key not in ("messages", "tools")} == wanted


def test_a_forced_tool_is_told_in_openais_words():
    """FC-10: `structured` then holds the engine to it."""
    choice = {"type": "tool", "name": "f", "disable_parallel_tool_use": True}
    found = asked(tools=[OTHER, TOOL], tool_choice=choice)
    assert found["tool_choice"] == {"type": "function", "function": {"name": "f"}} and len(found["tools"]) == 2


@pytest.mark.parametrize(("kind", "why"), [
    ("web_search_20250305", "no such tool runs on this server"), ("code_execution_20260521", "no such tool runs"),
    ("mcp_toolset", "no such tool runs"), ("bash_20250124", "by heart"), ("text_editor_20250728", "by heart"),
    ("memory_20250818", "by heart"), ("computer_toolset_20260801", "by heart"), ("novelty", "no such tool runs")])
def test_tools_that_are_not_the_clients_own(kind, why):
    with pytest.raises(KnobRefused, match=f"{kind}.*{why}.*input_schema"):
        parse(tools=[{"type": kind, "name": "x", "input_schema": {}}])


def test_a_choice_without_tools():
    assert asked(tool_choice={"type": "auto"}) == asked(tool_choice={"type": "none"}) == {"messages": HELLO}


CALLS = {"role": "assistant", "content": [
    {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "redacted_thinking", "data": "x"},
    words("let me see"), {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}},
    {"type": "tool_use", "id": "t2", "name": "g", "input": {}}]}


def result(id, *content, **more):
    return {"type": "tool_result", "tool_use_id": id, **({"content": content[0]} if content else {}), **more}


def test_the_assistants_blocks():
    assert turns(*HELLO, CALLS)[1] == {
        "role": "assistant", "content": "let me see", "reasoning_content": "hm", "tool_calls": [
            {"id": "t1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}},
            {"id": "t2", "type": "function", "function": {"name": "g", "arguments": "{}"}}]}


@pytest.mark.parametrize(("block", "text"), [
    (result("t1", "15C"), "15C"), (result("t1", [words("a"), words("b")]), "a\nb"), (result("t1", []), ""),
    (result("t1"), ""), (result("t1", None), ""), (result("t1", "no", is_error=True), "Error: no"),
    (result("t1", [{"type": "image", "source": {"type": "url", "url": "http://h/x.png"}}, words("a")]), "[image]\na"),
    (result("t1", [{"type": "image", "source": {"type": "base64", "data": "bm90aGluZw=="}}]), "[image]"),
    (result("t1", [{"type": "image"}], is_error=True), "Error: [image]"),
    (result("t1", [{"type": "document", "source": {"type": "base64", "data": "x" * 999}}]), "[document]"),
    (result("t1", [{"type": "tool_reference", "tool_name": "Read"}]), '[tool_reference: {"tool_name":"Read"}]')])
def test_results(block, text):
    """FC-17."""
    assert turns(CALLS, user(block, result("t2", "ok")))[1:] == [
        {"role": "tool", "tool_call_id": "t1", "content": text},
        {"role": "tool", "tool_call_id": "t2", "content": "ok"}]


def test_a_picture_of_a_result_is_offered():
    """Whether the model can see is not known here: where it cannot, the words stand for the picture."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    found = turns(CALLS, user(result("t1", [words("a"), image, words("b")]), result("t2", [image], is_error=True)))
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}, "offered": "[image]"}
    assert [turn["content"] for turn in found[1:]] == [[words("a"), picture, words("b")], [words("Error:"), picture]]


@pytest.mark.parametrize("blocks", [
    [result("t1", "1"), result("t2", "2"), words("x"), words("y")],
    [words("x"), words("y"), result("t1", "1"), result("t2", "2")],
    [words("x"), result("t1", "1"), words("y"), result("t2", "2")],
    [result("t2", "2"), words("x"), result("t1", "1"), words("y")]])
def test_text_around_results_comes_after_them(blocks):
    assert turns(CALLS, user(*blocks))[1:] == [
        {"role": "tool", "tool_call_id": "t1", "content": "1"}, {"role": "tool", "tool_call_id": "t2", "content": "2"},
        {"role": "user", "content": "x\ny"}]
    assert turns(CALLS, *(user(block) for block in blocks))[1:] == turns(CALLS, user(*blocks))[1:]


def test_a_call_without_a_result_gets_a_placeholder():
    found = turns(CALLS, user(result("t1", "1")))
    assert [turn["tool_call_id"] for turn in found[1:]] == ["t1", "t2"] and "no result" in found[2]["content"]
    assert [turn["role"] for turn in turns(CALLS, *HELLO)] == ["assistant", "tool", "tool", "user"]
    note = {"role": "system", "content": "x"}
    assert [turn["role"] for turn in turns(CALLS, *HELLO, note, *HELLO)][3:] == ["user", "system", "user"]


def test_a_result_without_its_call_is_passed_on():
    assert turns(user(result("t9", "1")))[0] == {"role": "tool", "tool_call_id": "t9", "content": "1"}


@pytest.mark.parametrize("blocks", [[result("t1", "1"), result("t1", "2")], [result("", "1")], [result(None, "1")],
                                    [result("t1", 5)], [result("t1", [5])]])
def test_results_that_make_no_sense(blocks):
    with pytest.raises(RequestRefused, match=r"messages\[1\].content\["):
        turns(CALLS, user(*blocks))


# -- a user's blocks -----------------------------------------------------------------------------------


def test_text_and_images_keep_their_order():
    url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    inline = {"type": "image", "source": {"type": "url", "url": f"data:image/png;base64,{PNG}"}}
    assert turns(user(words("a"), image, words("b"), inline))[0]["content"] == [words("a"), url, words("b"), url]


@pytest.mark.parametrize(("block", "text"), [
    ({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "body"}, "title": "T"},
     "T\nbody"),
    ({"type": "document", "source": {"type": "content", "content": [words("a"), words("b")]}}, "a\nb"),
    ({"type": "document", "source": {"type": "content", "content": "a"}}, "a"),
    ({"type": "compaction", "content": "so far"}, "so far"),
    ({"type": "search_result", "source": "s", "title": "t", "content": [words("a")]}, "t\ns\na"),
    ({"type": "novelty", "x": "y" * 500}, '[novelty: {"x":"' + "y" * 194 + "...]")])
def test_other_blocks_become_text_or_a_placeholder(block, text):
    assert turns(user(block)) == [{"role": "user", "content": text}]
