"""Recorded streams, cut in two at every byte: the same events, and the same bytes for the client in every dialect.

What `hypothesis` looks for in test_sse_splits.py, gone through place by place, on the end that lacks it as well.
"""

import json

import pytest

from blazar.proxy.exchange import Sink
from blazar.proxy.grammar import Envelopes
from blazar.proxy.sse import SseReader
from blazar.proxy.usage_filter import UsageFilter
from tests.contract.test_dialects import child_bytes, opened
from tests.support.scripted_child import chunked
from tests.support.wire import chunk, counts

TRANSLATED = ["anthropic-messages-turn", "ollama-chat-history", "responses-create-thinking", "responses-create-tools"]
"""Each with words, reasoning or calls of tools."""
STREAMS = [*TRANSLATED, "ollama-chat-broken", "anthropic-messages-stop"]
LINES = b"\xef\xbb\xbfid: 7\ndata: a\ndata:\xc3\xa9\ndata\n\n: ping\n\nevent: e\ndata: b\nretry: 1\n: ping\ndata: c\n\n"
"""Events of several lines."""
ENDS = [b"\n", b"\r\n", b"\r"]
CALLS = [{"a": "</tool_call>"}, {}, {"b": "\u00e9\\ {}\n"}]


def read(*pieces):
    reader = SseReader()
    return [event for piece in pieces for event in reader.feed(piece)] + reader.finish()


def halves(data):
    """Both parts of it, for every place at which it can be cut."""
    return ((data[:at], data[at:]) for at in range(1, len(data)))


@pytest.mark.parametrize("end", ENDS, ids=["lf", "crlf", "cr"])
@pytest.mark.parametrize("name", [*STREAMS, "lines"])
def test_the_events(name, end):
    data = (LINES if name == "lines" else child_bytes(name)).replace(b"\n", end)
    whole = read(data)
    assert len(whole) >= 2
    for parts in halves(data):
        assert read(*parts) == whole, len(parts[0])
    assert read(*(data[at:at + 1] for at in range(len(data)))) == whole


@pytest.mark.parametrize("name", TRANSLATED)
def test_their_translation(name):
    """The characters are cut, too: what the child writes is not escaped."""
    events = [json.loads(event) for event in read(child_bytes(name)) if event != "[DONE]"]
    data = b"".join(b"data: %b\n\n" % json.dumps(event, ensure_ascii=False).encode() for event in events)
    whole = translated(name, data)
    for parts in halves(data):
        assert translated(name, *parts) == whole, len(parts[0])


def translated(name, *pieces):
    exchange = opened(name)
    translator = exchange.dialect.translator(exchange)
    return b"".join([*(translator.feed(json.loads(event)) for event in read(*pieces) if event != "[DONE]"),
                     translator.finish()])


def test_what_a_model_writes_of_calls():
    text = "\n".join(f"<tool_call>{json.dumps({'name': 'f', 'arguments': one})}</tool_call>" for one in CALLS) + "words"
    whole = called(text)
    assert [json.loads(call["arguments"]) for call in whole[0]] == CALLS
    for parts in halves(text):
        assert called(*parts) == whole, len(parts[0])
    assert called(*text) == whole


def called(*pieces):
    events = [*map(chunk, pieces), chunk(reason="stop")]
    deltas = [choice["delta"] for event in Envelopes().events(iter(events)) for choice in event["choices"]]
    return ([call["function"] for delta in deltas for call in delta.get("tool_calls", ())],
            "".join(delta.get("content") or "" for delta in deltas))


class Kept(Sink):
    def __init__(self):
        self.data = b""

    def start(self, status, headers, *, raw_chunked=False):
        assert not raw_chunked

    def write(self, data):
        self.data += data

    def finish(self):
        self.data += b"."


@pytest.mark.parametrize("end", ENDS[:2], ids=["lf", "crlf"])
@pytest.mark.parametrize("raw_chunked", [True, False], ids=["chunks", "payload"])
def test_counts_that_the_client_does_not_see(raw_chunked, end):
    events = [b"data: %b%b%b" % (json.dumps(one).encode(), end, end)
              for one in (chunk("\u00e9"), chunk(reason="stop"), counts())] + [b"data: [DONE]" + end + end]
    data = chunked(*events) if raw_chunked else b"".join(events)
    wanted = b"".join([*events[:2], events[3], b"."])
    for parts in ((data,), *halves(data), [data[at:at + 1] for at in range(len(data))]):
        kept = Kept()
        sink = UsageFilter(kept)
        sink.start(200, [("Content-Type", "text/event-stream")], raw_chunked=raw_chunked)
        for part in parts:
            sink.write(part)
        sink.finish()
        assert kept.data == wanted, len(parts[0])
