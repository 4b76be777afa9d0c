"""Any split of any byte stream gives the same events, and the same bytes for the client in every dialect.

`hypothesis` looks for the split that does not, and shrinks what it finds.
"""

import json

import pytest

pytest.importorskip("hypothesis")

import itertools

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blazar.proxy.sse import SseReader
from tests.support.wire import call, chunk, counts, dialects

PIECES = [b"data: ", b"data:", b"data", b"d", b":", b" ", b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r", b"\r\n\r\n", b"x",
          b'{"a":1}', b"[DONE]", b"event: e", b"id: 7", b": ping", b"\xef\xbb\xbf", b"\xf0\x9f\x98\x80", b"\xff", b"\0"]
STREAMS = st.lists(st.sampled_from(PIECES), max_size=24).map(b"".join)
CUTS = st.lists(st.integers(0, 4000), max_size=12)
CHUNKS = st.lists(st.one_of(
    st.text(max_size=6).map(chunk),
    st.text(max_size=4).map(lambda words: chunk(reasoning_content=words)),
    st.tuples(st.integers(0, 2), st.text('{}":1a', max_size=5)).map(
        lambda given: chunk(tool_calls=[call(given[0], given[1], id=f"c{given[0]}", name="f")])),
    st.sampled_from(["stop", "length", "tool_calls"]).map(lambda reason: chunk(reason=reason)),
    st.just(counts())), max_size=8)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
FAST = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


def split(data, cuts):
    places = sorted({0, len(data), *(place % (len(data) + 1) for place in cuts)})
    return [data[start:end] for start, end in itertools.pairwise(places)]


def read(pieces):
    reader = SseReader()
    return [event for piece in pieces for event in reader.feed(piece)] + reader.finish()


def plain_reading(data):
    """The events of a stream as the standard tells them, line by line; slow and obvious."""
    text = data.decode(errors="replace").removeprefix("\ufeff")
    lines = [*text.replace("\r\n", "\n").replace("\r", "\n").split("\n"), ""]
    events, gathered = [], []
    for line in lines:
        field, _, value = line.partition(":")
        if line and field == "data":
            gathered.append(value.removeprefix(" "))
        elif not line:
            events.append("\n".join(gathered))
            gathered = []
    return [event for event in events if event]


@FAST
@given(STREAMS, CUTS)
def test_any_split_gives_the_events_that_the_standard_tells(data, cuts):
    assert read(split(data, cuts)) == plain_reading(data)
    assert read([data[at:at + 1] for at in range(len(data))]) == plain_reading(data)


@FAST
@given(CHUNKS, CUTS, ENDS, st.booleans(), st.sampled_from(["ollama", "anthropic"]),
       st.sampled_from([(), ("a",), ("{}",)]))
def test_any_split_gives_the_same_translation(chunks, cuts, end, done, name, stops):
    events = [json.dumps(item) for item in chunks] + (["[DONE]"] if done else [])
    data = b"".join(b"data: %b%b%b" % (event.encode(), end, end) for event in events)
    asked = json.dumps({"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "x"}], "stream": True})

    def translated(pieces):
        exchange = dialects()[name].parse("messages" if name == "anthropic" else "chat", asked.encode(), {}, "r")
        exchange.stops = stops
        translator = exchange.dialect.translator(exchange)
        told = [translator.feed(json.loads(event)) for event in read(pieces) if event != "[DONE]"]
        return b"".join([*told, translator.finish()])
    assert translated(split(data, cuts)) == translated([data]) == translated([data.replace(end, b"\n")])
