"""Stop sequences: passed on, reported, and kept even for an engine that runs past them (FC-19)."""

import json

import pytest

from tests.support.fake_supervisor import eventually
from tests.support.gateway_under_test import GatewayUnderTest, is_error_of
from tests.support.scripted_child import STREAM_HEAD, chunked, delta, event, writing
from tests.support.wire import anthropic_blocks, anthropic_events, ndjson

STOPS = ["STOP", "\n\nHuman:"]
USAGE = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("stops")) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    return shared.fresh()


def plays(*values):
    return lambda talk: talk.send(STREAM_HEAD + chunked(*map(event, values), b"data: [DONE]\n\n"))


def ended(**more):
    """The last chunk of a child that ended with `stop`, and says why in its own way."""
    last = delta(finish="stop")
    last["choices"][0].update(more)
    return last


def anthropic(gateway, stream, stops=STOPS):
    """Text, stop reason, stop sequence and output tokens of /v1/messages."""
    answer = gateway.ask("anthropic", stream=stream, stop_sequences=stops)
    assert answer.status == 200, answer
    if not stream:
        told = answer.json()
        return ("".join(block["text"] for block in told["content"]), told["stop_reason"], told["stop_sequence"],
                told["usage"]["output_tokens"])
    events = anthropic_events(answer.body)
    last = events[-2]
    return ("".join(block["text"] for block in anthropic_blocks(events)), last["delta"]["stop_reason"],
            last["delta"]["stop_sequence"], last["usage"]["output_tokens"])


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("ending", "reason", "sequence"), [
    (ended(stop_reason="STOP"), "stop_sequence", "STOP"), (ended(matched_stop="STOP"), "stop_sequence", "STOP"),
    (ended(stopping_word="STOP"), "stop_sequence", "STOP"), (ended(stop_reason=151645), "end_turn", None),
    (ended(matched_stop=2), "end_turn", None), (ended(), "end_turn", None),
    (ended(stop_reason="</s>"), "end_turn", None)])
def test_what_the_child_says_of_its_end(gateway, stream, ending, reason, sequence):
    gateway.child.play = plays(delta("A "), ending, USAGE)
    assert anthropic(gateway, stream) == ("A ", reason, sequence, 2)
    assert json.loads(gateway.child.received[0].body)["stop"] == STOPS


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("beside", [{"stopping_word": "STOP"}, {"__verbose": {"stopping_word": "STOP"}}])
def test_a_stopping_word_beside_the_choices_counts_too(gateway, stream, beside):
    gateway.child.play = plays(delta("A "), {**ended(), **beside}, USAGE)
    assert anthropic(gateway, stream)[1:3] == ("stop_sequence", "STOP")
    assert json.loads(gateway.child.received[0].body)["verbose"] is True, "else llama.cpp does not say"


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("pieces", [["A STO", "P B"], ["A ", "S", "T", "O", "P", " B"], ["A STOP B"],
                                    ["A ", "STOP\n\nHuman: B"]])
def test_a_child_that_ignores_stops_is_cut_and_cancelled(gateway, stream, pieces):
    closed = []

    def play(talk):
        talk.send(STREAM_HEAD + chunked(*(event(delta(piece)) for piece in pieces), last=False))
        closed.append(talk.client_closes())
    gateway.child.play = play
    text, reason, sequence, tokens = anthropic(gateway, stream)
    assert (text, reason, sequence) == ("A ", "stop_sequence", "STOP")
    assert tokens > 0
    assert eventually(lambda: closed) == [True]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("text", ["A STO", "A S", "A \n\nHuman"])
def test_what_only_begins_like_a_stop_is_not_lost(gateway, stream, text):
    gateway.child.play = plays(delta(text), delta(finish="stop"), USAGE)
    assert anthropic(gateway, stream) == (text, "end_turn", None, 2)


@pytest.mark.parametrize("stream", [False, True])
def test_nor_before_a_tool_call(gateway, stream):
    call = {"index": 0, "id": "c", "function": {"name": "f", "arguments": "{}"}}
    gateway.child.play = plays(delta("A STO"), delta(tool_calls=[call]), delta(finish="tool_calls"), USAGE)
    answer = gateway.ask("anthropic", stream=stream, stop_sequences=STOPS)
    blocks = anthropic_blocks(anthropic_events(answer.body)) if stream else answer.json()["content"]
    assert [(block["type"], block.get("text", block.get("input"))) for block in blocks] == [
        ("text", "A STO"), ("tool_use", {})]


@pytest.mark.parametrize("stops", [[], None])
def test_no_stops(gateway, stops):
    gateway.child.play = plays(delta("A STOP"), ended(), USAGE)
    assert anthropic(gateway, True, stops) == ("A STOP", "end_turn", None, 2)
    assert "stop" not in json.loads(gateway.child.received[0].body)


@pytest.mark.parametrize("stops", ["STOP", [1], {"a": 1}])
def test_anything_but_a_list_of_strings_is_refused(gateway, stops):
    answer = gateway.ask("anthropic", stop_sequences=stops)
    assert answer.status == 400 and "stop_sequences" in is_error_of("anthropic", answer)


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("stop", ["STOP", ["STOP"]])
def test_ollama_is_cut_too(gateway, path, stream, stop):
    closed = []

    def play(talk):
        talk.send(STREAM_HEAD + chunked(event(delta("A STO")), event(delta("P B")), last=False))
        closed.append(talk.client_closes())
    gateway.child.play = writing(play)
    answer = gateway.request("POST", path, {"model": "solo", "stream": stream, "options": {"stop": stop}, "prompt": "a",
                                            "messages": [{"role": "user", "content": "a"}]})
    lines = ndjson(answer.body) if stream else [answer.json()]
    text = "".join(line.get("response", line.get("message", {}).get("content")) for line in lines)
    assert text == "A " and lines[-1]["done"] and lines[-1]["done_reason"] == "stop"
    assert lines[-1]["eval_count"] > 0 and eventually(lambda: closed) == [True]
