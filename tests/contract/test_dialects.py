"""What every dialect keeps, and golden conversations.

A case in tests/data/wire is four files: the client's request, the request its child must get, the child's bytes, and
the client's bytes for them. The file name says dialect and operation: `ollama-chat-tools.request.json`.
"""

import json
import random
from pathlib import Path

import pytest

from blazar.errors import BodyTooLarge, ChildFailed, ModelNotFound, RequestRefused, Unauthenticated
from blazar.proxy.json import dumps
from tests.support.wire import (
    anthropic_blocks,
    anthropic_events,
    buffered,
    dialects,
    events_of,
    ndjson,
    responses_events,
    responses_items,
    sse,
    streamed,
)

WIRE = Path(__file__).parent.parent / "data" / "wire"
CASES = sorted(path.name.removesuffix(".request.json") for path in WIRE.glob("*.request.json"))
OPERATIONS = [("openai", "chat"), ("openai", "completions"), ("ollama", "chat"), ("ollama", "generate"),
              ("anthropic", "messages"), ("responses", "create")]
ASKING = [("openai", "embeddings"), ("ollama", "embed"), ("ollama", "embeddings"), ("anthropic", "count_tokens"),
          ("responses", "input_tokens")]
"""Operations that make no model write."""


def opened(case, **fields):
    """The exchange of a case, perhaps with other fields in its request."""
    dialect, operation, _ = case.split("-", 2)
    body = (WIRE / f"{case}.request.json").read_bytes()
    return dialects()[dialect].parse(operation, dumps(json.loads(body) | fields) if fields else body, {}, "r1")


def child_bytes(case):
    return (WIRE / f"{case}.sse").read_bytes()


def test_there_are_cases():
    assert {tuple(case.split("-")[:2]) for case in CASES} == {pair for pair in OPERATIONS if pair[0] != "openai"}


@pytest.mark.parametrize("case", CASES)
def test_the_child_is_asked(case):
    assert json.loads(opened(case).upstream_body) == json.loads((WIRE / f"{case}.upstream.json").read_bytes())


@pytest.mark.parametrize("case", CASES)
def test_the_client_gets(case):
    exchange = opened(case)
    answer = streamed(exchange, child_bytes(case)) if exchange.stream else buffered(exchange, child_bytes(case))
    assert answer == (WIRE / f"{case}.expected").read_bytes()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("case", CASES)
def test_it_does_not_matter_how_the_childs_bytes_arrive(case, seed):
    assert streamed(opened(case), child_bytes(case), seed) == streamed(opened(case), child_bytes(case))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("line_end", [b"\r\n", b"\r"])
def test_nor_how_its_lines_end(case, line_end):
    """FC-01, FC-02: other line ends, comments and fields between, and no [DONE]."""
    plain = child_bytes(case).replace(b"\r\n", b"\n")
    unsigned = plain.replace(b"data: [DONE]\n\n", b"")
    other = unsigned.replace(b"data: ", b": ping\n\nid: 7\ndata:").replace(b"\n", line_end)
    assert streamed(opened(case), other) == streamed(opened(case), plain)


@pytest.mark.parametrize("case", CASES)
def test_streamed_and_buffered_agree(case):
    whole = json.loads(buffered(opened(case, stream=False), child_bytes(case)))
    stream = streamed(opened(case, stream=True), child_bytes(case))
    if case.startswith("anthropic"):
        events = anthropic_events(stream)
        assert anthropic_blocks(events) == whole["content"]
        assert events[-2]["delta"]["stop_reason"] == whole["stop_reason"]
        assert events[-2]["usage"] == whole["usage"]
        return
    if case.startswith("responses"):
        events = responses_events(stream)
        assert events[-1]["response"] == whole and responses_items(events) == whole["output"]
        return
    *pieces, last = ndjson(stream)
    if "generate" in case:
        assert "".join(piece["response"] for piece in pieces) == whole.pop("response")
    else:
        messages = [piece["message"] for piece in pieces]
        assert "".join(message["content"] for message in messages) == whole["message"]["content"]
        assert ([call for message in messages for call in message.get("tool_calls", [])]
                == whole["message"].get("tool_calls", []))
    assert [piece["done"] for piece in pieces] == [False] * len(pieces)
    assert {key: last[key] for key in last if key not in ("message", "response")} == {
        key: whole[key] for key in whole if key not in ("message", "response")}


ODD = [None, True, 0, -1, 1.5, 1e300, "", "x", "\ud800", [], [None], ["x"], [[]], {}, {"type": "x"}, {"": None}]


def with_something_odd(value, chance):
    """`value` with one of its parts, chosen at random, replaced."""
    if not isinstance(value, dict | list) or not value or chance.random() < 0.2:
        return chance.choice(ODD)
    key = chance.choice(list(value) if isinstance(value, dict) else range(len(value)))
    changed = dict(value) if isinstance(value, dict) else list(value)
    changed[key] = with_something_odd(value[key], chance)
    return changed


@pytest.mark.parametrize("case", CASES)
def test_whatever_a_field_holds_it_is_read_or_refused(case):
    dialect, operation, _ = case.split("-", 2)
    chance, asked = random.Random(case), json.loads((WIRE / f"{case}.request.json").read_bytes())
    for _ in range(300):
        body = json.dumps(with_something_odd(asked, chance)).encode()
        try:
            exchange = dialects()[dialect].parse(operation, body, {}, "r1")
        except RequestRefused as refused:
            assert len(refused.message) > 20
        else:
            assert exchange.knobs.get("load_only") or json.loads(exchange.upstream_body)["model"] == exchange.asked


@pytest.mark.parametrize("case", CASES)
def test_whatever_a_child_sends_is_read(case):
    chance, exchange = random.Random(case), opened(case)
    events = events_of(child_bytes(case))
    for _ in range(100):
        odd = [with_something_odd(event, chance) for event in events]
        streamed(exchange, sse([event for event in odd if isinstance(event, dict)]))


BAD_BODIES = [b"", b"[]", b'"x"', b"null", b"{", "{}".encode("utf-16"), b'{"model":"m\xff"}', b'{"temperature":NaN}',
              b"[" * 100_000, b'{"max_tokens":' + b"1" * 5000 + b"}", b"{}", b'{"model":""}', b'{"model":5}',
              b'{"model":"m","stream":"yes"}']


def shape_of(dialect, body):
    """The message of an error, after checking that it has the dialect's shape."""
    told = json.loads(body)
    if dialect == "ollama":
        assert set(told) == {"error"}
        return told["error"]
    if dialect == "anthropic":
        assert told["type"] == "error" and set(told["error"]) == {"type", "message"}
    else:
        assert set(told["error"]) == {"message", "type", "param", "code"}
    return told["error"]["message"]


@pytest.mark.parametrize("body", BAD_BODIES, ids=lambda body: repr(body[:16]))
@pytest.mark.parametrize(("name", "operation"), OPERATIONS + ASKING)
def test_a_bad_body_is_a_400_that_teaches(name, operation, body):
    """FC-24, FC-09."""
    dialect = dialects()[name]
    with pytest.raises(RequestRefused) as caught:
        dialect.parse(operation, body, {}, "r1")
    status, answer = dialect.error(caught.value)
    assert status == 400 and len(shape_of(name, answer)) > 20


@pytest.mark.parametrize("error", [RequestRefused("no"), Unauthenticated(), ModelNotFound(name="m", near=""),
                                   BodyTooLarge(limit="1 MiB"), ChildFailed(model="m", reason="gone"), OSError("no")])
@pytest.mark.parametrize("name", ["openai", "ollama", "anthropic", "responses"])
def test_every_error_has_its_dialects_shape(name, error):
    dialect = dialects()[name]
    status, answer = dialect.error(error)
    assert status == getattr(error, "status", 500) and shape_of(name, answer)
    assert answer in dialect.stream_error(error)
