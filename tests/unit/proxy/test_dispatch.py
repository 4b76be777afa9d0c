"""A child's answer on its way through `Dispatch`, in the dialects that translate."""

import json

import pytest

from blazar.proxy import json as door
from blazar.proxy.dispatch import Dispatch
from blazar.proxy.wire.pool import Pool
from blazar.telemetry.metrics import Metrics
from tests.support.fake_supervisor import endpoint
from tests.support.scripted_child import STREAM_HEAD, ScriptedChild, chunked
from tests.support.wire import call, chunk, counts, dialects

ASKED = {"ollama": ("chat", {"messages": [{"role": "user", "content": "x"}]}),
         "anthropic": ("messages", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 9}),
         "responses": ("create", {"input": "x"})}
ANSWER = [chunk("", role="assistant"), chunk(reasoning_content="hm"), chunk("Hello"), chunk(" world"),
          chunk(reason="stop"), counts()]
CALLING = [chunk("Hello world"), chunk(tool_calls=[call(0, '{"a"', "i", "f")]), chunk(tool_calls=[call(0, ":1}")]),
           chunk(reason="tool_calls"), counts()]


class Sink:
    """Gathers one answer."""

    gone = early = started = False

    def __init__(self):
        self.body = b""

    def start(self, status, headers):
        self.started = True

    def write(self, data):
        self.body += data

    def give(self, status, headers, body):
        self.write(body)

    def finish(self):
        """It is whole."""

    def watch(self, on_gone):
        """Nobody leaves."""

    def unwatch(self):
        """Nobody has left."""


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("answer", [ANSWER, CALLING])
@pytest.mark.parametrize("dialect", ASKED)
def test_each_event_is_parsed_once(monkeypatch, dialect, answer, stream):
    events = [json.dumps(event, separators=(",", ":")).encode() for event in answer]
    operation, fields = ASKED[dialect]
    exchange = dialects()[dialect].parse(operation, json.dumps({"model": "m", "stream": stream, **fields}).encode(),
                                         {}, "r")
    parsed, read = [], door._read
    monkeypatch.setattr(door, "orjson", None)  # then everything that is parsed anywhere passes through one function
    monkeypatch.setattr(door, "_read", lambda body: parsed.append(body) or read(body))
    with ScriptedChild(lambda talk: talk.send(STREAM_HEAD + chunked(*(b"data: %b\n\n" % event for event in events),
                                                                    b"data: [DONE]\n\n"))) as child:
        exchange.endpoint, exchange.sink = endpoint("m", child.address), Sink()
        assert Dispatch(Pool(), None, Metrics()).send(exchange).complete
    assert b"world" in exchange.sink.body
    arguments = [b'{"a":1}'] if answer is CALLING and (dialect == "ollama" or (dialect == "anthropic" and not stream)) \
        else []  # as these write them, they are an object
    assert parsed == events + arguments
