"""Turns that call tools, through the running gateway (FC-07, FC-08)."""

import hashlib
import json

import pytest

from tests.support.gateway_under_test import GatewayUnderTest
from tests.support.scripted_child import STREAM_HEAD, chunked, delta, events
from tests.support.wire import anthropic_blocks, anthropic_events, ndjson

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("tools")) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    return shared.fresh()


def functions(*names, parameters=PARAMETERS):
    return [{"type": "function", "function": {"name": name, "parameters": parameters}} for name in names]


def offered(dialect):
    if dialect == "anthropic":
        return [{"name": "f", "input_schema": PARAMETERS}]
    return functions("f")


def called(index, name, arguments):
    return {"index": index, "id": f"call_{index}", "type": "function",
            "function": {"name": name, "arguments": arguments}}


def says(gateway, *values):
    gateway.child.play = lambda talk: talk.send(STREAM_HEAD + chunked(*events(values)))


# -- FC-08 -----------------------------------------------------------------------------------------------


CALL = delta(tool_calls=[called(0, "f", '{"city":"Paris"}')])
USE = {"type": "tool_use", "id": "call_0", "name": "f", "input": {"city": "Paris"}}
TURNS = {
    # what the child sends: blocks and stop reason of Anthropic, content, calls and reason of Ollama
    "stop": ([CALL, delta(finish="stop")], [USE], "tool_use"),
    "tool_calls": ([CALL, delta(finish="tool_calls")], [USE], "tool_use"),
    "words": ([delta("hi"), delta(finish="stop")], [{"type": "text", "text": "hi"}], "end_turn"),
    "too long": ([delta("hi"), delta(finish="length")], [{"type": "text", "text": "hi"}], "max_tokens"),
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("turn", TURNS)
def test_anthropic_says_that_a_tool_is_used(gateway, turn, stream):
    values, blocks, reason = TURNS[turn]
    says(gateway, *values)
    answer = gateway.ask("anthropic", tools=offered("anthropic"), stream=stream)
    if stream:
        told = anthropic_events(answer.body)
        assert (anthropic_blocks(told), told[-2]["delta"]["stop_reason"]) == (blocks, reason)
    else:
        assert (answer.json()["content"], answer.json()["stop_reason"]) == (blocks, reason)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("turn", TURNS)
def test_ollama_has_the_call_before_the_end(gateway, turn, stream):
    values, blocks, reason = TURNS[turn]
    says(gateway, *values)
    answer = gateway.ask("ollama", tools=offered("ollama"), stream=stream)
    lines = ndjson(answer.body) if stream else [answer.json()]
    calls = [call["function"] for line in lines for call in line["message"].get("tool_calls", [])]
    assert calls == [{"index": 0, "name": "f", "arguments": {"city": "Paris"}}
                     for block in blocks if block["type"] == "tool_use"]
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert not (stream and lines[-1]["message"].get("tool_calls")), "after the end nobody looks"
    assert lines[-1]["done_reason"] == ("length" if reason == "max_tokens" else "stop")


@pytest.mark.parametrize("turn", TURNS)
def test_openai_gets_the_childs_bytes(gateway, turn):
    says(gateway, *TURNS[turn][0])
    answer = gateway.ask("openai", tools=offered("openai"), stream=True)
    sent = b"".join(events(TURNS[turn][0]))
    assert hashlib.sha256(answer.body).hexdigest() == hashlib.sha256(sent).hexdigest()


# -- FC-07 -----------------------------------------------------------------------------------------------


def test_first_turn_gives_objects(gateway):
    says(gateway, delta(tool_calls=[called(0, "f", '{"city":"Paris"}')]), delta(tool_calls=[called(1, "g", "{}")]),
         delta(finish="tool_calls"))
    message = gateway.ask("ollama", tools=functions("f", "g"), stream=False).json()["message"]
    assert message["content"] == ""
    assert [call["function"]["arguments"] for call in message["tool_calls"]] == [{"city": "Paris"}, {}]


@pytest.mark.parametrize("arguments", [{"city": "Paris"}, '{"city":"Paris"}'])
def test_second_turn_gives_the_child_strings_and_ids(gateway, arguments):
    history = [{"role": "user", "content": "hi"},
               {"role": "assistant", "content": "", "tool_calls": [
                   {"function": {"name": "f", "arguments": arguments}}, {"function": {"name": "g", "arguments": {}}}]},
               {"role": "tool", "tool_name": "f", "content": "15C"},
               {"role": "tool", "tool_name": "g", "content": "ok"}]
    answer = gateway.ask("ollama", messages=history, tools=functions("f", "g"), stream=False)
    assert answer.status == 200 and isinstance(answer.json()["message"]["content"], str)
    received, = gateway.child.received
    _, assistant, first, second = json.loads(received.body)["messages"]
    calls = assistant["tool_calls"]
    assert [json.loads(call["function"]["arguments"]) for call in calls] == [{"city": "Paris"}, {}]
    assert [first["tool_call_id"], second["tool_call_id"]] == [call["id"] for call in calls]
    assert len({call["id"] for call in calls}) == 2 and all(call["id"] for call in calls)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", ["ollama", "anthropic"])
def test_broken_arguments_are_seen(gateway, dialect, stream):
    says(gateway, delta(tool_calls=[called(0, "f", "{city:")]), delta(finish="tool_calls"))
    answer = gateway.ask(dialect, tools=offered(dialect), stream=stream)
    assert answer.status == 200 and b"{city:" in answer.body


@pytest.mark.parametrize("parameters", [{"type": "object", "properties": []},
                                        {"type": "object", "properties": {"n": {"type": ["string", "null"]}}}])
def test_odd_schemas_are_taken(gateway, parameters):
    assert gateway.ask("ollama", tools=functions("f", parameters=parameters), stream=False).status == 200
