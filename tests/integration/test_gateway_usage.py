"""Token counts: relayed when asked for, real where a client cannot ask (FC-03, without limits)."""

import json

import pytest

from tests.support.gateway_under_test import GatewayUnderTest
from tests.support.scripted_child import STREAM_HEAD, chunked, delta, event
from tests.support.wire import anthropic_events, ndjson


def play(talk):
    """A child that sends the usage chunk only if it was asked for one."""
    asked = json.loads(talk.request.body)
    told = [delta("a"), delta(finish="stop")]
    if (asked.get("stream_options") or {}).get("include_usage"):
        told.append({"choices": [], "usage": {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}})
    talk.send(STREAM_HEAD + chunked(*map(event, told), b"data: [DONE]\n\n"))


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
