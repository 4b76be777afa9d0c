"""Any split of any byte stream gives the same events, and the same bytes for the client in every dialect.

`hypothesis` looks for the split that does not, and shrinks what it finds.
"""

import json

import pytest

pytest.importorskip("hypothesis")

import itertools

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from blazar.proxy.grammar import Envelopes
from blazar.proxy.sse import SseReader
from tests.support.wire import call, chunk, counts, dialects

PIECES = [b"data: ", b"data:", b"data", b"d", b":", b" ", b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r", b"\r\n\r\n", b"x",
          b'{"a":1}', b"[DONE]", b"event: e", b"id: 7", b": ping", b"\xef\xbb\xbf", b"\xf0\x9f\x98\x80", b"\xff", b"\0"]
LINES = st.tuples(st.sampled_from([b"data: x", b"data:y", b"data", b"", b": ping", b"event: e",
                                   b"\xef\xbb\xbfdata: z"]),
                  st.sampled_from([b"\n", b"\r\n", b"\r"])).map(b"".join)
WELL_FORMED = st.tuples(st.sampled_from([b"", b"\xef\xbb\xbf"]), st.lists(LINES, min_size=1, max_size=9)).map(
    lambda given: given[0] + b"".join(given[1]))
STREAMS = st.one_of(st.lists(st.sampled_from(PIECES), max_size=24).map(b"".join), WELL_FORMED)
CUTS = st.lists(st.integers(0, 4000), max_size=12)
CHUNKS = st.lists(st.one_of(
    st.text(max_size=6).map(chunk),
    st.text(max_size=4).map(lambda words: chunk(reasoning_content=words)),
    st.tuples(st.integers(0, 2), st.text('{}":1a', max_size=5)).map(
        lambda given: chunk(tool_calls=[call(given[0], given[1], id=f"c{given[0]}", name="f")])),
    st.sampled_from(["stop", "length", "tool_calls"]).map(lambda reason: chunk(reason=reason)),
    st.just(counts())), max_size=8)
ENDS = st.sampled_from([b"\n", b"\r\n", b"\r"])
MESSAGES = [{"role": "user", "content": "x"}]
ASKED = {"ollama": ("chat", {"messages": MESSAGES}), "anthropic": ("messages", {"messages": MESSAGES, "max_tokens": 9}),
         "responses": ("create", {"input": "x"}), "openai": ("chat", {"messages": MESSAGES})}
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
@given(CHUNKS, CUTS, ENDS, st.booleans(), st.sampled_from(list(ASKED)), st.sampled_from([(), ("a",), ("{}",)]))
def test_any_split_gives_the_same_translation(chunks, cuts, end, done, name, stops):
    events = [json.dumps(item) for item in chunks] + (["[DONE]"] if done else [])
    data = b"".join(b"data: %b%b%b" % (event.encode(), end, end) for event in events)
    operation, fields = ASKED[name]
    asked = json.dumps({"model": "m", "stream": True, **fields}).encode()

    def translated(pieces):
        exchange = dialects()[name].parse(operation, asked, {}, "r")
        exchange.stops = stops
        translator = exchange.dialect.translator(exchange)
        told = [translator.feed(json.loads(event)) for event in read(pieces) if event != "[DONE]"]
        return b"".join([*told, translator.finish()])
    assert translated(split(data, cuts)) == translated([data]) == translated([data.replace(end, b"\n")])


ENVELOPES = st.lists(st.dictionaries(st.sampled_from(["a", "</tool_call>", "<tool_call>"]),
                                     st.sampled_from(["", "</tool_call>", "{}\n", "\u00e9\\"]), max_size=2), max_size=3)


@FAST
@given(ENVELOPES, st.sampled_from(["", "words", "<tool", " <tool_call>"]), CUTS)
def test_any_split_of_what_a_model_writes_gives_the_same_calls(arguments, words, cuts):
    """With `decode_policy = "strict"`: envelopes, or words, or envelopes that are not whole."""
    text = "\n".join(f"<tool_call>{json.dumps({'name': 'f', 'arguments': one})}</tool_call>" for one in arguments)
    told = []
    for pieces in (split(text + words, cuts), list(text + words), [text + words]):
        events = [*map(chunk, pieces), chunk(reason="stop")]
        deltas = [choice["delta"] for event in Envelopes().events(iter(events)) for choice in event["choices"]]
        calls = [call["function"] for delta in deltas for call in delta.get("tool_calls", ())]
        told.append((calls, "".join(delta.get("content") or "" for delta in deltas)))
    assert told[0] == told[1] == told[2]
    assert [json.loads(call["arguments"]) for call in told[0][0]] == arguments
