"""What an Ollama request asks of the child."""

import base64
import json

import pytest

from blazar.errors import KnobRefused, RequestRefused
from blazar.proxy.dialects.ollama_generate import completion_of
from blazar.proxy.dialects.ollama_options import FOR_EVER, keep_alive
from tests.support.wire import dialects

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\nrest").decode()
HELLO = [{"role": "user", "content": "hi"}]


def parse(operation="chat", **fields):
    body = json.dumps({"model": "m", **fields}).encode()
    return dialects()["ollama"].parse(operation, body, {}, "r1")


def asked(operation="chat", **fields):
    """The child's request, without what every request has."""
    upstream = json.loads(parse(operation, **fields).upstream_body)
    assert upstream.pop("model") == "m"
    assert upstream.pop("stream") is True and upstream.pop("stream_options") == {"include_usage": True}
    return upstream


# -- keep_alive (FC-12) --------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "seconds"), [
    (0, 0.0), ("0", 0.0), ("0s", 0.0), (-1, -1.0), ("-1m", -1.0), ("5m", 300.0), ("1h30m", 5400.0), (300, 300.0),
    (0.5, 0.5), (None, None), ("-1", -1.0), ("300", 300.0), (1e300, -1.0), ("9" * 400, -1.0), ("250ms", 0.25)])
def test_keep_alive(value, seconds):
    assert parse(messages=HELLO, keep_alive=value).keep_alive == seconds


def test_keep_alive_not_said():
    assert parse(messages=HELLO).keep_alive is None


@pytest.mark.parametrize("value", ["", "5 minutes", True, False, {}, [], "m", "1e300", "--1", "5m!"])
def test_keep_alive_refused(value):
    with pytest.raises(RequestRefused, match="`keep_alive` must be seconds"):
        parse(messages=HELLO, keep_alive=value)


# -- the envelope --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("stream", "wanted"), [(None, True), (True, True), (False, False)])
def test_stream_is_the_default_and_the_child_is_always_asked_for_one(stream, wanted):
    exchange = parse(messages=HELLO, stream=stream)
    assert exchange.stream is wanted and json.loads(exchange.upstream_body)["stream"] is True


def test_nulls_are_absent():
    """FC-09."""
    nulls = dict.fromkeys(["options", "format", "keep_alive", "think", "tools", "stream", "logprobs"])
    assert asked(messages=HELLO, **nulls) == asked(messages=HELLO) == {"messages": HELLO}


@pytest.mark.parametrize(("fields", "why"), [
    ({"model": ""}, "`model`"), ({"model": 5}, "`model`"), ({"model": None}, "`model` is missing"),
    ({"messages": {}}, "`messages` must be a list of objects, not an object"),
    ({"messages": ["x"]}, r"`messages\[0\]`"),
    ({"messages": [{"content": "x"}]}, r"`messages\[0\].role` must be"),
    ({"messages": [{"role": "robot", "content": "x"}]}, 'not "robot"'),
    ({"messages": [{"role": "user", "content": [1]}]}, r"`messages\[0\].content` must be a string, not a list"),
    ({"options": []}, "`options` must be an object"), ({"options": {"temperature": "hot"}}, "`options.temperature`"),
    ({"options": {"top_k": 1.5}}, "whole number"), ({"options": {"stop": [1]}}, r"`options.stop\[0\]`"),
    ({"options": {"seed": True}}, "`options.seed` must be a number, not true"),
    ({"format": "yaml"}, '`format` must be "json" or a JSON schema, not "yaml"'), ({"format": 7}, "not 7"),
    ({"think": "much"}, "`think`"), ({"think": 1}, "`think`"), ({"tools": {}}, "`tools`"),
    ({"tools": [{"function": {"parameters": {"properties": ["x"]}}}]}, "properties` must be an object"),
    ({"messages": [{"role": "user", "content": "x", "images": ["!!!"]}]},
     r"`messages\[0\].images\[0\]` is not base64")])
def test_refusals_name_the_field(fields, why):
    with pytest.raises(RequestRefused, match=why):
        parse(**{"messages": HELLO, **fields})


# -- options, format, think ----------------------------------------------------------------------------


def test_options():
    given = {"temperature": 0, "top_p": 0.9, "top_k": 40.0, "min_p": 0.1, "seed": 7, "num_predict": 12,
             "stop": ["a", ""], "repeat_penalty": 1.1, "presence_penalty": 0.2, "frequency_penalty": 0.3,
             "mirostat": 2, "mirostat_tau": 5, "mirostat_eta": 0.1, "repeat_last_n": 64, "num_ctx": 4096,
             "num_gpu": 1, "unknown": {}, "typical_p": None}
    wanted = {"temperature": 0, "top_p": 0.9, "top_k": 40, "min_p": 0.1, "seed": 7, "max_tokens": 12, "stop": ["a"],
              "repeat_penalty": 1.1, "presence_penalty": 0.2, "frequency_penalty": 0.3, "mirostat": 2,
              "mirostat_tau": 5, "mirostat_eta": 0.1, "repeat_last_n": 64}
    assert asked(messages=HELLO, options=given) == {"messages": HELLO, **wanted}


@pytest.mark.parametrize("limit", [-1, -2, 0])
def test_no_limit_is_no_limit(limit):
    assert asked(messages=HELLO, options={"num_predict": limit}) == {"messages": HELLO}


def test_one_stop_may_be_a_string():
    assert asked(messages=HELLO, options={"stop": "END"})["stop"] == ["END"]


SCHEMA = {"type": "object", "properties": {"items": {"type": "array", "items": {"$ref": "#/$defs/B"}}},
          "required": ["items"], "$defs": {"B": {"type": "object", "properties": {"n": {"type": "integer"}}}}}


def test_format():
    """FC-10: a schema arrives whole."""
    assert asked(messages=HELLO, format="json")["response_format"] == {"type": "json_object"}
    assert asked(messages=HELLO, format=SCHEMA)["response_format"]["json_schema"]["schema"] == SCHEMA
    assert "response_format" not in asked(messages=HELLO, format="")


@pytest.mark.parametrize(("think", "kwargs"), [
    (True, {"enable_thinking": True}), (False, {"enable_thinking": False}),
    *((level, {"enable_thinking": True, "reasoning_effort": level}) for level in ("low", "high", "max"))])
def test_think(think, kwargs):
    assert asked(messages=HELLO, think=think)["chat_template_kwargs"] == kwargs


# -- turns ---------------------------------------------------------------------------------------------


def test_the_developer_is_the_system_and_null_is_empty():
    turns = asked(messages=[{"role": "developer", "content": "Be brief."}, {"role": "assistant", "content": None,
                  "thinking": "hm"}, {"role": "User", "content": "\ud800"}])["messages"]
    assert turns == [{"role": "system", "content": "Be brief."}, {"role": "assistant", "content": "",
                     "reasoning_content": "hm"}, {"role": "user", "content": "\ufffd"}]


def test_images_become_parts_after_the_text():
    url = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    turns = asked(messages=[{"role": "user", "content": "what?", "images": [PNG, f"data:image/png;base64,{PNG}"]},
                            {"role": "user", "content": "", "images": [PNG]}])["messages"]
    assert turns[0]["content"] == [{"type": "text", "text": "what?"}, url, url]
    assert turns[1]["content"] == [url]


def called(*calls):
    return {"role": "assistant", "content": "", "tool_calls": [{"function": function} for function in calls]}


def test_history_of_tools_without_ids():
    """FC-07."""
    turns = asked(messages=[
        called({"name": "f", "arguments": {"city": "Paris"}}, {"name": "g", "arguments": {}}),
        {"role": "tool", "tool_name": "f", "content": "15C"}, {"role": "tool", "tool_name": "g", "content": "ok"},
        called({"name": "f"}), {"role": "tool", "content": "16C"}])["messages"]
    first, second = turns[0]["tool_calls"]
    assert first["function"] == {"name": "f", "arguments": '{"city":"Paris"}'}
    assert second["function"] == {"name": "g", "arguments": "{}"}
    assert first["type"] == "function"
    assert turns[1] == {"role": "tool", "tool_call_id": first["id"], "name": "f", "content": "15C"}
    assert turns[2] == {"role": "tool", "tool_call_id": second["id"], "name": "g", "content": "ok"}
    assert turns[4]["tool_call_id"] == turns[3]["tool_calls"][0]["id"]
    assert len({first["id"], second["id"], turns[4]["tool_call_id"]}) == 3


def test_results_in_another_order_and_twice_the_same_tool():
    turns = asked(messages=[
        called({"name": "f", "arguments": {"n": 1}}, {"name": "g"}, {"name": "f", "arguments": {"n": 2}}),
        {"role": "tool", "tool_name": "g", "content": ""}, {"role": "tool", "tool_name": "f", "content": "1"},
        {"role": "tool", "tool_name": "f", "content": "2"}])["messages"]
    ids = [call["id"] for call in turns[0]["tool_calls"]]
    assert [turn["tool_call_id"] for turn in turns[1:]] == [ids[1], ids[0], ids[2]]


def test_results_whose_calls_were_cut_off_with_the_beginning_of_the_history():
    turns = asked(messages=[{"role": "tool", "content": "a"}, {"role": "tool", "content": "b", "tool_name": "f"},
                            {"role": "tool", "content": "c", "tool_call_id": "7"}])["messages"]
    assert turns == [{"role": "tool", "content": "a", "tool_call_id": "call_lost"},
                     {"role": "tool", "content": "b", "tool_call_id": "call_f", "name": "f"},
                     {"role": "tool", "content": "c", "tool_call_id": "7"}]


def test_ids_that_are_given_are_kept():
    calls = [{"id": "x1", "function": {"name": "f", "arguments": '{"a":1}'}}, {"id": None, "function": {"name": "f"}}]
    turns = asked(messages=[{"role": "assistant", "tool_calls": calls},
                            {"role": "tool", "tool_call_id": None, "tool_name": "f", "content": "first"},
                            {"role": "tool", "tool_call_id": "call_1", "content": "second"},
                            {"role": "tool", "tool_call_id": "gone", "content": "third"}])["messages"]
    assert turns[0]["tool_calls"][0] == {"type": "function", **calls[0]}
    assert [turn["tool_call_id"] for turn in turns[1:]] == ["x1", "call_1", "gone"]


def test_arguments_that_were_cut_off_reach_the_child_inside_an_object():
    """FC-09: an engine fails on arguments that are no JSON, and a replayed turn would fail for ever."""
    turns = asked(messages=[called({"name": "f", "arguments": '{"a": '})])["messages"]
    assert json.loads(turns[0]["tool_calls"][0]["function"]["arguments"]) == {"arguments": '{"a": '}


def test_tools_pass_and_an_empty_list_of_properties_is_an_object():
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
        "a": {"type": ["string", "null"]}}}}}
    empty = {"type": "function", "function": {"name": "g", "parameters": {"type": "object", "properties": []}}}
    tools = asked(messages=HELLO, tools=[tool, empty])["tools"]
    assert tools[0] == tool and tools[1]["function"]["parameters"]["properties"] == {}
    assert "tools" not in asked(messages=HELLO, tools=[])


# -- generate ------------------------------------------------------------------------------------------


def test_generate_is_a_chat_of_one_turn():
    assert asked("generate", prompt="hi", system="Be brief.", format="json", options={"seed": 1}) == {
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hi"}],
        "response_format": {"type": "json_object"}, "seed": 1}
    assert parse("generate", prompt="hi").upstream_path == "/v1/chat/completions"


def test_raw_generate_is_a_plain_completion():
    assert parse("generate", prompt="hi", raw=True).upstream_path == "/v1/completions"
    assert asked("generate", prompt="hi", raw=True, options={"num_predict": 3}) == {"prompt": "hi", "max_tokens": 3}
    assert asked("generate", prompt="hi", raw=True, format=SCHEMA)["json_schema"] == SCHEMA


@pytest.mark.parametrize("field", [
    {"template": "{{ .Tools }}"}, {"template": "{% for a in b %}"}, {"template": "x", "think": True},
    {"width": 512}, {"raw": True, "images": [PNG]}, {"raw": True, "system": "x"},
    {"raw": True, "context": [1]}, {"raw": True, "think": True}, {"suffix": "x", "system": "x"},
    {"suffix": "x", "format": "json"}, {"context": [1], "images": [PNG]}, {"context": [1], "think": "low"}])
def test_what_would_be_ignored_is_refused(field):
    with pytest.raises(KnobRefused, match=list(field)[-1]):
        parse("generate", prompt="hi", **field)
    parse("generate", prompt="hi", suffix="", template="", context=[])


@pytest.mark.parametrize(("operation", "fields"), [
    ("chat", {}), ("chat", {"messages": []}), ("chat", {"messages": None}), ("generate", {}),
    ("generate", {"prompt": ""}), ("generate", {"prompt": None, "system": "x"})])
def test_without_a_prompt_the_model_is_only_loaded(operation, fields):
    exchange = parse(operation, keep_alive="10m", **fields)
    assert exchange.knobs == {"load_only": True} and exchange.keep_alive == 600
    assert exchange.upstream_body == b"" and exchange.stream is False


def test_for_ever_is_negative():
    assert keep_alive("-1s") == FOR_EVER < 0


def test_likely_tokens_are_asked_for_in_the_words_of_each_path():
    assert asked("chat", messages=HELLO, logprobs=True)["top_logprobs"] == 1
    assert asked("chat", messages=HELLO, top_logprobs=3)["logprobs"] is True
    assert asked("generate", prompt="hi", raw=True, logprobs=True, top_logprobs=3)["logprobs"] == 3
    assert asked("generate", prompt="hi", suffix="x", logprobs=True)["n_probs"] == 1
    assert "logprobs" not in asked("chat", messages=HELLO, logprobs=False)
    for wrong in (-1, 21, "3", 1.5):
        with pytest.raises(RequestRefused, match="top_logprobs"):
            parse("chat", messages=HELLO, top_logprobs=wrong)


def test_a_gap_is_filled_with_the_engines_own_words():
    exchange = parse("generate", prompt="def f(", suffix="return 1", options={"num_predict": 9, "stop": "x"})
    assert exchange.upstream_path == "/infill" and exchange.stops == ("x",)
    assert asked("generate", prompt="a", suffix="b", options={"num_predict": 9}) == {
        "input_prefix": "a", "input_suffix": "b", "n_predict": 9}
    assert "prompt" not in parse("generate", suffix="b").knobs and parse("generate", suffix="b").upstream_body
    with pytest.raises(RequestRefused, match="raw"):
        parse("generate", prompt="a", suffix="b", raw=True)


def test_a_template_of_the_requests_own_makes_the_prompt():
    template = "{{ if .System }}<s>{{ .System }}</s>{{ end }}<u>{{ .Prompt }}</u>{{ .Response }}<end>"
    exchange = parse("generate", prompt="hi", template=template, system="Be brief.", format=SCHEMA)
    assert exchange.upstream_path == "/v1/completions"
    assert asked("generate", prompt="hi", template=template, system="Be brief.", format=SCHEMA) == {
        "prompt": "<s>Be brief.</s><u>hi</u>", "json_schema": SCHEMA}
    assert asked("generate", prompt="hi", template=template)["prompt"] == "<u>hi</u>"


def test_context_is_a_list_of_tokens():
    assert parse("generate", prompt="a", context=[1, 2]).context == [1, 2]
    assert parse("generate", prompt="a", context=None).context == []
    for wrong in ("1", [1, "2"], [-1], [True], [1.5], [1 << 31], {"a": 1}):
        with pytest.raises(RequestRefused, match="context"):
            parse("generate", prompt="a", context=wrong)


def test_a_completion_of_tokens_asks_what_the_chat_asked():
    chat = asked("generate", prompt="a", format=SCHEMA, think=False, logprobs=True, options={"seed": 1})
    assert completion_of(chat, [1, 2]) == {"prompt": [1, 2], "seed": 1, "json_schema": SCHEMA, "logprobs": 1}
    assert completion_of(asked("generate", prompt="a", format="json"), [1])["json_schema"] == {"type": "object"}


@pytest.mark.parametrize(("wanted", "tokens"), [
    (None, 0), (4096, 4096), (0, 0), (-5, 0), (1 << 40, 1 << 24), (8192.0, 8192)])
def test_num_ctx_is_what_the_model_shall_read_at_least(wanted, tokens):
    assert parse("chat", messages=HELLO, options={"num_ctx": wanted}).num_ctx == tokens


def test_thinking_is_wanted_when_it_is_asked_for():
    for think, thinks in ((None, False), (False, False), (True, True), ("low", True)):
        assert parse("chat", messages=HELLO, think=think).thinks is thinks
