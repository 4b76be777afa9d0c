"""What answers say of a key's limits: in OpenAI's form everywhere, in Anthropic's besides on its routes."""

import json

import pytest

from tests.support.gateway_under_test import ASK, MODEL, GatewayUnderTest
from tests.support.scripted_child import STREAM_HEAD, chunked, delta, event, json_answer

DIALECTS = list(ASK)
FORMS = ("x-ratelimit-", "anthropic-ratelimit-")


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    names = [f"{dialect}_{kind}" for dialect in DIALECTS for kind in ("whole", "stream", "over")]
    keys = [{"name": name, "key": f"sk-{name}", "rpm": 2, "tpm": 5000} for name in (*names, "other", "load")]
    keys += [{"name": "free", "key": "sk-free", "max_concurrent": 9}, {"name": "day", "key": "sk-day",
                                                                      "daily_tokens": 900}]
    with GatewayUnderTest(tmp_path_factory.mktemp("rates"), {"keys": keys}) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    gateway = shared.fresh()
    gateway.child.play = play
    return gateway


def play(talk):
    """An answer of 10 and 20 tokens, which nobody asked to be told."""
    timings = {"prompt_n": 10, "predicted_n": 20}
    if json.loads(talk.request.body).get("stream"):
        last = {**delta(finish="stop"), "timings": timings}
        talk.send(STREAM_HEAD + chunked(event(delta("x")), event(last), b"data: [DONE]\n\n"))
    else:
        talk.send(json_answer(json.dumps({"choices": [{"message": {"content": "x"}}], "timings": timings}).encode()))


def key(name):
    return {"Authorization": f"Bearer sk-{name}"}


def told(answer):
    return {name: value for name, value in answer.headers.items() if name.startswith(FORMS)}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("stream", [False, True])
def test_each_answer_tells_what_is_left(gateway, dialect, stream):
    caller = key(f"{dialect}_{'stream' if stream else 'whole'}")
    first, second = (told(gateway.ask(dialect, caller, stream=stream)) for _ in range(2))
    assert [first[f"x-ratelimit-{what}-requests"] for what in ("limit", "remaining")] == ["2", "1"]
    assert second["x-ratelimit-remaining-requests"] == "0"
    assert second["x-ratelimit-reset-requests"] in ("1m0s", "60s", "1m1s")
    left = [int(one["x-ratelimit-remaining-tokens"]) for one in (first, second)]
    assert left[0] - left[1] == 30 and left[0] < 5000, "the first one's estimate has become its real count"
    anthropic = {name for name in first if name.startswith("anthropic")}
    assert len(anthropic) == (6 if dialect == "anthropic" else 0)
    if anthropic:
        assert second["anthropic-ratelimit-requests-remaining"] == "0"
        assert first["anthropic-ratelimit-tokens-remaining"] == first["x-ratelimit-remaining-tokens"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_refusals_tell_it_too(gateway, dialect):
    caller = key(f"{dialect}_over")
    answers = [gateway.ask(dialect, caller, model="nope"), *(gateway.ask(dialect, caller) for _ in range(3))]
    assert [(answer.status, told(answer)["x-ratelimit-remaining-requests"]) for answer in answers] == [
        (404, "2"), (200, "1"), (200, "0"), (429, "0")]
    assert 50 < int(answers[-1].headers["retry-after"]) <= 61


def test_other_answers_tell_it_and_take_nothing(gateway):
    for method, path in (("GET", "/v1/models"), ("GET", "/api/tags"), ("GET", "/metrics"), ("GET", "/v1/models/nope")):
        answer = gateway.request(method, path, headers=key("other"))
        assert told(answer)["x-ratelimit-remaining-requests"] == "2", path


def test_a_load_and_an_unload_tell_it_once(gateway):
    for keep_alive, left in ((300, "1"), (0, "1")):
        body = json.dumps({"model": MODEL, "keep_alive": keep_alive}).encode()
        answer = gateway.request("POST", "/api/generate", body, key("load"))
        assert answer.status == 200 and told(answer)["x-ratelimit-remaining-requests"] == left
        assert answer.body.count(b"ratelimit") == 0
    gateway.supervisor.loaded[MODEL] = gateway.supervisor.loadable[MODEL]
    gateway.supervisor.push()


def test_a_days_tokens_are_told_when_there_is_no_other_limit(gateway):
    first = told(gateway.ask("openai", key("day"), max_tokens=100))
    assert first["x-ratelimit-limit-tokens"] == "900" and "x-ratelimit-limit-requests" not in first
    second = told(gateway.ask("openai", key("day"), max_tokens=100))
    assert int(first["x-ratelimit-remaining-tokens"]) - int(second["x-ratelimit-remaining-tokens"]) == 30
    assert second["x-ratelimit-reset-tokens"].endswith("s")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_key_without_such_limits_is_told_nothing(gateway, dialect):
    assert told(gateway.ask(dialect, key("free"))) == {}


def test_pages_may_read_it(gateway):
    answer = gateway.request("GET", "/v1/models", headers={**key("other"), "Origin": "http://localhost:3000"})
    exposed = answer.headers["access-control-expose-headers"].split(", ")
    assert {*told(answer), "Retry-After"} <= set(exposed)
