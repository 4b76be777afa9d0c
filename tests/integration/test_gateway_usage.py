"""Token counts: relayed when asked for, real where a client cannot ask, and charged to its key in any case (FC-03)."""

import json

import pytest

from tests.support.fake_supervisor import eventually
from tests.support.gateway_under_test import GatewayUnderTest
from tests.support.scripted_child import STREAM_HEAD, chunked, delta, event, json_answer
from tests.support.wire import anthropic_events, ndjson


def payload(talk):
    """What a child streams that sends the usage chunk only if it was asked for one."""
    asked = json.loads(talk.request.body)
    told = [delta("a"), delta(finish="stop")]
    if (asked.get("stream_options") or {}).get("include_usage"):
        told.append({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}})
    return [*map(event, told), b"data: [DONE]\n\n"]


def play(talk):
    talk.send(STREAM_HEAD + chunked(*payload(talk)))


@pytest.fixture
def gateway(shared):
    gateway = shared.fresh()
    gateway.child.play = play
    return gateway


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("usage")) as gateway:
        yield gateway


def chunks(answer):
    blocks = answer.body.decode().split("\n\n")
    assert blocks[-2:] == ["data: [DONE]", ""]
    return [json.loads(block.removeprefix("data: ")) for block in blocks[:-2]]


def test_one_chunk_with_the_usage_when_asked(gateway):
    *before, last = chunks(gateway.ask("openai", stream=True, stream_options={"include_usage": True}))
    assert last["choices"] == [] and last["usage"]["total_tokens"] == 16
    assert all(one["choices"] for one in before) and before[-1]["choices"][0]["finish_reason"] == "stop"


@pytest.mark.parametrize("more", [{}, {"stream_options": None}, {"stream_options": {"include_usage": False}}])
def test_none_when_not_asked(gateway, more):
    assert all(one["choices"] and "usage" not in one for one in chunks(gateway.ask("openai", stream=True, **more)))


def test_ollama_has_the_childs_counts(gateway):
    for answer in (ndjson(gateway.ask("ollama", stream=True).body)[-1], gateway.ask("ollama", stream=False).json()):
        assert (answer["prompt_eval_count"], answer["eval_count"]) == (11, 5)


def test_anthropic_has_the_childs_counts(gateway):
    streamed = anthropic_events(gateway.ask("anthropic", stream=True).body)[-2]["usage"]
    whole = gateway.ask("anthropic", stream=False).json()["usage"]
    assert (streamed["input_tokens"], streamed["output_tokens"]) == (whole["input_tokens"], whole["output_tokens"])
    assert (whole["input_tokens"], whole["output_tokens"]) == (11, 5)


ANN = {"Authorization": "Bearer sk-ann"}
TIMINGS = {"prompt_n": 11, "cache_n": 0, "predicted_n": 5}


@pytest.fixture(scope="module")
def keyed(tmp_path_factory):
    keys = [{"name": "ann", "key": "sk-ann", "tpm": 100000, "daily_tokens": 100000}]
    with GatewayUnderTest(tmp_path_factory.mktemp("charged"), {"keys": keys}) as gateway:
        yield gateway


def charged(gateway):
    """Lines of the audit log: tokens, and whether they are a guess."""
    log = gateway.supervisor.paths.audit_log
    lines = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    return [(one["prompt_tokens"], one["completion_tokens"], one["estimated"]) for one in lines]


def in_pieces(talk):
    """Events begin and end anywhere in its chunks."""
    whole = b"".join(payload(talk))
    talk.send(STREAM_HEAD + chunked(*(whole[at:at + 7] for at in range(0, len(whole), 7))))


def with_a_length(talk):
    whole = b"".join(payload(talk))
    talk.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
              b"Content-Length: %d\r\n\r\n%b" % (len(whole), whole))


def ending_lines_otherwise(talk):
    talk.send(STREAM_HEAD + chunked(*(one.replace(b"\n", b"\r\n") for one in payload(talk))))


@pytest.mark.parametrize("more", [{}, {"stream_options": None}, {"stream_options": {"include_usage": False}}])
@pytest.mark.parametrize("played", [play, in_pieces, with_a_length, ending_lines_otherwise])
def test_a_key_is_charged_what_the_client_did_not_ask_for(keyed, played, more):
    """By an engine that tells it only if asked, too; and its client is told no more than else."""
    keyed.fresh().child.play = played
    before = len(charged(keyed))
    answer = keyed.ask("openai", ANN, stream=True, **more)
    shown = answer.body.decode().replace("\r\n", "\n")
    assert shown == (event(delta("a")) + event(delta(finish="stop")) + b"data: [DONE]\n\n").decode()
    assert eventually(lambda: charged(keyed)[before:]) == [(11, 5, False)]


def test_a_key_that_asks_is_told(keyed):
    keyed.fresh().child.play = play
    before = len(charged(keyed))
    *_, last = chunks(keyed.ask("openai", ANN, stream=True, stream_options={"include_usage": True}))
    assert last["choices"] == [] and last["usage"]["total_tokens"] == 16
    assert eventually(lambda: charged(keyed)[before:]) == [(11, 5, False)]


def test_an_engine_that_tells_its_counts_unasked_gets_requests_as_they_are(keyed):
    def timed(talk):
        talk.send(STREAM_HEAD + chunked(event(delta("a")), event({**delta(finish="stop"), "timings": TIMINGS}),
                                        b"data: [DONE]\n\n"))
    keyed.fresh().child.play = timed
    before = len(charged(keyed))
    for _ in range(3):
        assert b"timings" in keyed.ask("openai", ANN, stream=True).body
    first, *others = [json.loads(one.body) for one in keyed.child.received]
    assert first["stream_options"] == {"include_usage": True} and not any("stream_options" in one for one in others)
    eventually(lambda: len(charged(keyed)) == before + 3)
    assert charged(keyed)[before:] == [(11, 5, False)] * 3


def test_without_a_key_nothing_is_asked_for(gateway):
    gateway.ask("openai", stream=True)
    assert "stream_options" not in json.loads(gateway.child.received[-1].body)


def test_what_breaks_off_is_told_and_charged_by_what_came(keyed):
    def breaks(talk):
        talk.send(STREAM_HEAD + chunked(event(delta("a")), event(delta("b")), last=False))
        talk.close()
    keyed.fresh().child.play = breaks
    before = len(charged(keyed))
    events = keyed.ask("openai", ANN, stream=True).body.decode().split("\n\n")
    assert len(events) == 4 and events[2].startswith('data: {"error":') and events[3] == ""
    (prompt, completion, estimated), = eventually(lambda: charged(keyed)[before:])
    assert prompt > 0 and (completion, estimated) == (2, True)


def test_a_refusal_reaches_the_client_as_it_is(keyed):
    body = b'{"error":{"message":"no","code":400}}'
    keyed.fresh().child.play = lambda talk: talk.send(json_answer(body, "400 Bad Request"))
    answer = keyed.ask("openai", ANN, stream=True)
    assert (answer.status, answer.body, answer.headers["content-length"]) == (400, body, str(len(body)))
