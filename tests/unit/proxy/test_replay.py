"""An answer taken down from one client's bytes, or its child's events, and given to another."""

import json

import pytest

from blazar.proxy.answer_cache import Kept
from blazar.proxy.exchange import Usage
from blazar.proxy.replay import LONGEST, Listener, replay
from tests.support.exchanges import exchange_of
from tests.support.wire import anthropic_blocks, anthropic_events, chunk, counts, dialects, ndjson, sse

KEPT = Kept("Hello world", "hm", None, Usage(prompt_tokens=7, completion_tokens=3))
STREAM = [chunk("", role="assistant"), chunk(reasoning_content="hm"), chunk("Hello"), chunk(" world"),
          chunk(reason="stop"), counts()]
WHOLE = {"choices": [{"index": 0, "finish_reason": "stop", "message": {
    "role": "assistant", "content": "Hello world", "reasoning_content": "hm"}}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 3}}


class Sink:
    """Gathers one answer."""

    def __init__(self):
        self.status, self.headers, self.body = 0, {}, b""

    def start(self, status, headers):
        self.status, self.headers = status, dict(headers)

    def write(self, data):
        self.body += data

    def finish(self):
        """It is whole."""

    def give(self, status, headers, body):
        self.start(status, headers)
        self.write(body)


def exchange(dialect="openai", stream=False, stops=()):
    made = exchange_of(id="r", dialect=dialects()[dialect], operation="chat", asked="M", stream=stream, body=b"",
                    payload={"stop_sequences": list(stops)}, stops=stops)
    made.sink = Sink()
    return made


def given(dialect, stream, kept=KEPT, wants_usage=True, stops=()):
    made = exchange(dialect, stream, stops)
    reply = replay(made, kept, wants_usage)
    assert (reply.status, reply.complete, reply.usage) == (200, True, None), "nobody has worked for it"
    return made.sink


def taken_down(stream, body):
    listener = Listener(exchange(stream=stream))
    listener.body(body)
    return listener.kept()


def test_both_forms_of_openai_are_taken_down():
    assert taken_down(True, sse(STREAM)).text == "Hello world" == taken_down(False, json.dumps(WHOLE).encode()).text
    for kept in (taken_down(True, sse(STREAM)), taken_down(False, json.dumps(WHOLE).encode())):
        assert (kept.thinking, kept.usage.prompt_tokens, kept.usage.completion_tokens) == ("hm", 7, 3)


def test_events_pass_while_they_are_taken_down():
    listener = Listener(exchange("ollama"))
    assert list(listener.events(iter(STREAM))) == STREAM
    assert listener.kept().text == "Hello world"
    list(listener.events(iter(STREAM[2:])))
    assert listener.kept().thinking == "", "another attempt begins anew"


def test_a_stop_sequence_ends_the_text():
    listener = Listener(exchange("anthropic", stops=("wor",)))
    for _ in listener.events(iter(STREAM[:4])):
        pass
    assert (listener.kept().text, listener.kept().stop_text) == ("Hello ", "wor")


CUT = {**WHOLE["choices"][0], "finish_reason": "length"}
CALL = {"role": "assistant", "content": "x", "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]}


@pytest.mark.parametrize(("stream", "body"), [
    (False, b"{"), (False, b"[]"), (False, b"{}"), (False, json.dumps({"choices": [CUT]}).encode()),
    (False, json.dumps({"choices": WHOLE["choices"] * 2}).encode()),
    (False, json.dumps({"choices": [{"message": CALL, "finish_reason": "stop"}]}).encode()),
    (False, json.dumps({"choices": [{"message": {"content": ""}, "finish_reason": "stop"}]}).encode()),
    (False, json.dumps({"choices": [{"message": {"content": "x" * (LONGEST + 1)}, "finish_reason": "stop"}]}).encode()),
    (True, sse([chunk("Hello"), {"error": {"message": "broken"}}])),
    (True, sse([chunk("Hello"), chunk(reason="length")])), (True, b"data: {\n\n")])
def test_what_is_not_kept(stream, body):
    assert taken_down(stream, body) is None


def test_nothing_was_said_at_all():
    assert Listener(exchange()).kept() is None


def test_openai_whole_and_streamed():
    value = json.loads(given("openai", False).body)
    assert value["choices"] == WHOLE["choices"] and (value["object"], value["model"]) == ("chat.completion", "M")
    assert value["usage"] == {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    sink = given("openai", True)
    assert sink.headers["Content-Type"] == "text/event-stream" and sink.body.endswith(b"data: [DONE]\n\n")
    listener = Listener(exchange(stream=True))
    listener.body(sink.body)
    assert listener.kept() == KEPT
    assert b"usage" not in given("openai", True, wants_usage=False).body


def test_ollama():
    value = json.loads(given("ollama", False).body)
    assert value["message"] == {"role": "assistant", "content": "Hello world", "thinking": "hm"}
    assert (value["done"], value["done_reason"], value["eval_count"]) == (True, "stop", 3)
    lines = ndjson(given("ollama", True).body)
    assert "".join(line["message"]["content"] for line in lines) == "Hello world" and lines[-1]["done"]


def test_anthropic():
    kept = Kept("Hello", stop_text="END")
    value = json.loads(given("anthropic", False, kept, stops=("END",)).body)
    assert value["content"] == [{"type": "text", "text": "Hello"}]
    assert (value["stop_reason"], value["stop_sequence"]) == ("stop_sequence", "END")
    streamed = anthropic_events(given("anthropic", True, kept, stops=("END",)).body)
    assert anthropic_blocks(streamed) == value["content"]
    assert streamed[-2]["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "END"}
