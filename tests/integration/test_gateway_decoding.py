"""Settings that shape what a model writes: the sentinel's, `decode_policy` and `raw_lane_max_tokens`."""

import json

import pytest

from tests.integration.test_gateway_structured import ASKS, BAD, FORCES, GOOD, ON, RECEIPT, SCHEMA, asked, called, says
from tests.support.gateway_under_test import MESSAGES, MODEL, GatewayUnderTest
from tests.support.wire import ndjson

OTHER = "other:q4_0"
TOOLS = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in ("f", "g")]
ENVELOPE = '<tool_call>\n{"name": "g", "arguments": {"n": 1}}\n</tool_call>'


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    config = {"decode_policy": "strict", "sentinel_enforce": True, "raw_lane_max_tokens": 100,
              "reasoning_format": "none",
              "model_overrides": {"other": {"raw_lane_max_tokens": 0}}}
    with GatewayUnderTest(tmp_path_factory.mktemp("decoding"), config, installed=(MODEL, OTHER)) as gateway:
        gateway.supervisor.loadable[OTHER] = gateway.supervisor.loadable[MODEL]
        yield gateway


@pytest.fixture(scope="module")
def shared_blind(tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("blind"), {"sentinel": False}) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def gathering(tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("gathering"), {"buffered_via_stream": True}) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    return shared.fresh()


@pytest.fixture
def blind(shared_blind):
    return shared_blind.fresh()


# -- thoughts --------------------------------------------------------------------------------------------


def test_thoughts_are_kept_out_of_a_text_that_has_a_form(gateway):
    """An engine that leaves them in the text cannot hold it to a form as well."""
    says(gateway, GOOD)
    for dialect in ASKS:
        assert gateway.ask(dialect, **ASKS[dialect](SCHEMA)).status == 200
        assert asked(gateway)["reasoning_format"] == "deepseek"
        assert gateway.ask(dialect).status == 200
        assert "reasoning_format" not in asked(gateway), "without a form they stand where the setting wants them"
    gateway.ask("openai", **ASKS["openai"](SCHEMA), reasoning_format="auto")
    assert asked(gateway)["reasoning_format"] == "auto" and "chat_template_kwargs" not in asked(gateway)
    gateway.ask("openai", grammar='root ::= "a"', chat_template_kwargs={"enable_thinking": True, "x": 1})
    assert asked(gateway)["chat_template_kwargs"] == {"enable_thinking": False, "x": 1}
    answer = gateway.ask("openai", grammar='root ::= "a"', chat_template_kwargs=7)
    assert answer.status == 400 and "`chat_template_kwargs` must be an object" in answer.body.decode()


# -- the sentinel ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", ASKS)
def test_enforced_for_all_whole_answers_unless_one_says_off(gateway, dialect):
    says(gateway, BAD)
    assert gateway.ask(dialect, stream=False, **ASKS[dialect](SCHEMA)).status == 422
    assert gateway.ask(dialect, {"X-Blazar-Enforce": "off"}, stream=False, **ASKS[dialect](SCHEMA)).status == 200
    assert gateway.ask(dialect, stream=True, **ASKS[dialect](SCHEMA)).status == 200, "a stream is only observed"


def test_without_the_sentinel(blind):
    says(blind, BAD)
    for dialect, ask in ASKS.items():
        answer = blind.ask(dialect, stream=False, **ask(SCHEMA))
        assert (answer.status, answer.headers[RECEIPT]) == (200, "json_schema")
    refused = blind.ask("openai", ON, **ASKS["openai"](SCHEMA))
    assert refused.status == 400 and "sentinel" in refused.body.decode()
    for dialect, fields in FORCES.items():
        assert called(dialect, blind.ask(dialect, **fields), False)[0] == "f", "tools are forced all the same"


def test_answers_gathered_from_a_stream(gathering):
    says(gathering, GOOD[:5], GOOD[5:])
    answer = gathering.ask("openai", ON, **ASKS["openai"](SCHEMA))
    assert asked(gathering)["stream"] and answer.headers[RECEIPT] == "json_schema"
    assert answer.json()["choices"][0]["message"]["content"] == GOOD
    assert called("openai", gathering.ask("openai", ON, **FORCES["openai"]), False)[:2] == ("f", GOOD)
    assert asked(gathering)["stream"]
    says(gathering, BAD)
    assert gathering.ask("openai", ON, **ASKS["openai"](SCHEMA)).status == 422


# -- decode_policy ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
def test_strict_confines_calls_and_reads_them_back(gateway, stream):
    says(gateway, ENVELOPE[:7], ENVELOPE[7:20], ENVELOPE[20:])
    answer = gateway.ask("ollama", stream=stream, tools=TOOLS)
    sent = asked(gateway)
    assert sent["grammar"].startswith('root ::= calls\nname ::= "\\U00000022f\\U00000022" | "\\U00000022g')
    assert (sent["tools"], sent["tool_choice"]) == (TOOLS, "none")
    assert sent["chat_template_kwargs"]["enable_thinking"] is False
    assert answer.headers[RECEIPT] == "gbnf"
    lines = ndjson(answer.body) if stream else [answer.json()]
    calls = [call["function"] for line in lines for call in line["message"].get("tool_calls", ())]
    assert calls == [{"index": 0, "name": "g", "arguments": {"n": 1}}]
    assert "".join(line["message"]["content"] for line in lines) == "" and lines[-1]["done_reason"] == "stop"


def test_strict_lets_it_speak_once_a_tool_has_answered(gateway):
    says(gateway, "It is ", "15C.")
    call = {"function": {"name": "f", "arguments": {}}}
    turns = [*MESSAGES, {"role": "assistant", "content": "", "tool_calls": [call]},
             {"role": "tool", "tool_name": "f", "content": "15C"}]
    answer = gateway.ask("ollama", stream=False, tools=TOOLS, messages=turns)
    assert asked(gateway)["grammar"].startswith("root ::= calls | words\n")
    assert answer.json()["message"]["content"] == "It is 15C."


def test_strict_concerns_only_ollamas_tools(gateway):
    answer = gateway.ask("ollama", stream=False)
    assert "grammar" not in asked(gateway) and RECEIPT not in answer.headers
    gateway.ask("openai", tools=TOOLS)
    assert "grammar" not in asked(gateway)
    refused = gateway.ask("ollama", tools=TOOLS, format="json")
    assert refused.status == 400 and "decode_policy" in refused.json()["error"]
    nameless = gateway.ask("ollama", tools=[{"type": "function", "function": {}}])
    assert nameless.status == 400 and "tools[0].function.name" in nameless.json()["error"]


# -- raw_lane_max_tokens ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "options", "limit"), [
    (MODEL, {}, 100), (MODEL, {"num_predict": 7}, 7), (MODEL, {"num_predict": 101}, 100),
    (MODEL, {"num_predict": -1}, 100), (OTHER, {}, None), (OTHER, {"num_predict": 500}, 500),
])
def test_raw_completions_have_a_limit(gateway, model, options, limit):
    body = {"model": model, "prompt": "a", "raw": True, "stream": False, "options": options}
    assert gateway.request("POST", "/api/generate", body).status == 200
    assert asked(gateway).get("max_tokens") == limit


def test_others_have_none(gateway):
    gateway.request("POST", "/api/generate", {"model": MODEL, "prompt": "a", "stream": False})
    assert "max_tokens" not in asked(gateway)
    gateway.request("POST", "/v1/completions", {"model": MODEL, "prompt": "a"})
    assert json.loads(gateway.child.received[-1].body) == {"model": MODEL, "prompt": "a"}
