"""The limits of API keys at the real gateway: 429 in each dialect, and counts that are right however a request ends."""

import json
import os
import re
import signal
import threading
import time
from datetime import UTC, datetime

import pytest

from blazar.proxy.sliding import STEPS
from tests.support.fake_supervisor import eventually
from tests.support.gateway_under_test import ASK, MODEL, GatewayUnderTest, is_error_of, post, read_until
from tests.support.scripted_child import STREAM_HEAD, chunked, delta, event, hello_world, json_answer

DIALECTS = list(ASK)
SHAPES = {
    # dialect: the error object of a 429 for a minute's limit, and for a day's
    "openai": [{"type": "rate_limit_error", "code": "rate_limit_exceeded", "param": None},
               {"type": "insufficient_quota", "code": "insufficient_quota", "param": None}],
    "anthropic": [{"type": "rate_limit_error"}] * 2,
}
SHAPES["responses"] = SHAPES["openai"]
ROOM = {
    # dialect: how a request says how many tokens it may write
    "openai": lambda tokens: {"max_tokens": tokens},
    "ollama": lambda tokens: {"options": {"num_predict": tokens}},
    "anthropic": lambda tokens: {"max_tokens": tokens},
    "responses": lambda tokens: {"max_output_tokens": tokens},
}


def key(name):
    return {"Authorization": f"Bearer sk-{name}"}


def limits(**by_name):
    return {"keys": [{"name": name, "key": f"sk-{name}", **limit} for name, limit in by_name.items()]}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Each test has a key of its own, named after it."""
    config = limits(**{f"rpm_{dialect}": {"rpm": 2} for dialect in DIALECTS},
                    **{f"day_{dialect}": {"daily_tokens": 400} for dialect in DIALECTS},
                    **{f"tpm_{dialect}": {"tpm": 1000} for dialect in DIALECTS},
                    **{f"busy_{dialect}": {"max_concurrent": 1} for dialect in DIALECTS},
                    two={"rpm": 3, "tpm": 1000}, left={"tpm": 600}, failing={"tpm": 600}, held={"max_concurrent": 1},
                    free={})
    with GatewayUnderTest(tmp_path_factory.mktemp("limits"), config) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    return shared.fresh()


def spend(prompt, completion):
    """A child whose answers cost so much."""
    def play(conversation):
        usage = {"prompt_tokens": prompt, "completion_tokens": completion}
        if json.loads(conversation.request.body).get("stream"):
            last = {"choices": [], "usage": usage}
            conversation.send(STREAM_HEAD + chunked(event(delta("x")), event(last), b"data: [DONE]\n\n"))
        else:
            conversation.send(json_answer(json.dumps({"choices": [], "usage": usage}).encode()))
    return play


def whole_seconds(answer):
    """When to ask again, as HTTP wants it."""
    assert re.fullmatch("[1-9][0-9]*", answer.headers["retry-after"]), answer.headers
    return int(answer.headers["retry-after"])


def check_shape(dialect, answer, daily):
    assert answer.status == 429, answer
    is_error_of(dialect, answer)
    if dialect in SHAPES:
        told = answer.json()["error"]
        assert told.pop("message")
        assert told == SHAPES[dialect][daily]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_requests_a_minute(gateway, dialect):
    caller = key(f"rpm_{dialect}")
    assert [gateway.ask(dialect, caller).status for _ in range(2)] == [200, 200]
    answer = gateway.ask(dialect, caller)
    check_shape(dialect, answer, daily=False)
    assert 30 < whole_seconds(answer) <= 61
    assert f"'rpm_{dialect}'" in is_error_of(dialect, answer) and "rpm = 2" in is_error_of(dialect, answer)
    assert len(gateway.child.received) == 2, "a refused request reaches no child"
    assert gateway.ask(dialect, key("free")).status == 200
    assert gateway.request("GET", "/v1/models", headers=caller).status == 200, "only requests to a model count"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tokens_a_day(gateway, dialect):
    gateway.child.play = spend(150, 250)
    caller = key(f"day_{dialect}")
    assert gateway.ask(dialect, caller, stream=True).status == 200
    answer = gateway.ask(dialect, caller)
    check_shape(dialect, answer, daily=True)
    assert whole_seconds(answer) <= 86400
    assert "midnight UTC" in is_error_of(dialect, answer)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_requests_at_the_same_time(gateway, dialect):
    gone_on = threading.Event()

    def wait(conversation):
        assert gone_on.wait(10)
        hello_world(conversation)

    gateway.child.play = wait
    caller, answers = key(f"busy_{dialect}"), []
    first = threading.Thread(target=lambda: answers.append(gateway.ask(dialect, caller)))
    first.start()
    eventually(lambda: gateway.child.received)
    refused = gateway.ask(dialect, caller)
    check_shape(dialect, refused, daily=False)
    assert refused.headers["retry-after"] == "1" and "max_concurrent = 1" in is_error_of(dialect, refused)
    gone_on.set()
    first.join()
    assert answers[0].status == 200
    assert [gateway.ask(dialect, caller).status for _ in range(20)] == [200] * 20, "one after the other is no crowd"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tokens_a_minute_count_what_was_used_not_what_was_asked_for(gateway, dialect):
    gateway.child.play = spend(10, 40)
    caller, room = key(f"tpm_{dialect}"), ROOM[dialect]
    for _ in range(2):
        assert gateway.ask(dialect, caller, **room(900)).status == 200
    refused = gateway.ask(dialect, caller, **room(900))
    check_shape(dialect, refused, daily=False)
    assert 30 < whole_seconds(refused) <= 61, "until what was used is a minute old"
    told = is_error_of(dialect, refused)
    assert "used or reserved 100 in the last minute" in told and "tpm = 1000" in told
    assert len(gateway.child.received) == 2, "a refused request reaches no child"
    assert gateway.ask(dialect, caller, **room(500)).status == 200


def test_leaving_early_is_no_way_around_the_limit(gateway):
    def on_and_on(conversation):
        conversation.send(STREAM_HEAD)
        conversation.send(chunked(*[event(delta("word"))] * 300, last=False))
        conversation.client_closes()

    gateway.child.play = on_and_on
    path, body = ASK["openai"]
    sent = json.dumps({**body, "stream": True, "max_tokens": 400}).encode()
    with gateway.connect() as sock:
        sock.sendall(post(path, sent, "X-Api-Key: sk-left"))
        read_until(sock, b"word\"}, \"finish_reason\": null}]}\n\n\r\n")
    gateway.child.play = hello_world
    eventually(lambda: gateway.ask("openai", key("left"), max_tokens=1).status == 200)
    assert gateway.ask("openai", key("left"), max_tokens=400).status == 429


def test_what_failed_gives_its_reservation_back(gateway):
    gateway.child.play = lambda conversation: conversation.close()
    for _ in range(5):
        assert gateway.ask("anthropic", key("failing"), max_tokens=500).status == 502
    gateway.child.play = hello_world
    assert gateway.ask("anthropic", key("failing"), max_tokens=500).status == 200


@pytest.mark.parametrize("ending", ["leaves", "fails"])
def test_a_place_is_given_back_however_the_request_ends(gateway, ending):
    path, body = ASK["ollama"]
    if ending == "leaves":
        gateway.child.play = lambda conversation: conversation.client_closes()
        with gateway.connect() as sock:
            sock.sendall(post(path, json.dumps(body).encode(), "X-Api-Key: sk-held"))
            eventually(lambda: gateway.child.received)
    else:
        gateway.child.play = lambda conversation: conversation.close()
        assert gateway.ask("ollama", key("held")).status == 502
    gateway.child.play = hello_world
    eventually(lambda: gateway.ask("ollama", key("held")).status == 200)


def test_a_day_outlives_the_gateway_worker(tmp_path):
    def today():
        return datetime.now(UTC).date().isoformat()

    with GatewayUnderTest(tmp_path, limits(ann={"daily_tokens": 400})) as gateway:
        gateway.child.play = spend(150, 150)
        assert gateway.ask("openai", key("ann"), stream=True, max_tokens=50).status == 200
        rows = eventually(lambda: [row for note in gateway.supervisor.notes("report") for row in note["usage"]
                                   if row["prompt_tokens"]])
        row, = rows
        [step, *_], = row.pop("steps")
        assert abs(step - time.monotonic() * STEPS) < 60 * STEPS
        assert row == {"key": "ann", "day": today(), "model": MODEL, "requests": 1, "prompt_tokens": 150,
                       "completion_tokens": 150}
        gateway.supervisor.usage = {"day": today(), "tokens": {"ann": 390}}
        gateway.supervisor.kill()
        gateway.supervisor.launch()
        gateway.supervisor.wait_for_hello(2)
        eventually(lambda: gateway.request("GET", "/v1/models", headers=key("ann")).status == 200)
        refused = gateway.ask("openai", key("ann"), max_tokens=50)
        assert refused.status == 429 and "used or reserved 390 today" in is_error_of("openai", refused)


def test_the_last_counts_are_told_before_the_worker_ends(tmp_path):
    with GatewayUnderTest(tmp_path, limits(ann={})) as gateway:
        gateway.child.play = spend(7, 8)
        assert gateway.ask("openai", key("ann"), stream=False).status == 200
        os.kill(gateway.supervisor.process.pid, signal.SIGTERM)
        gateway.supervisor.process.wait(20)
        rows = [row for note in gateway.supervisor.notes("report") for row in note["usage"]]
        assert [sum(row[name] for row in rows) for name in ("requests", "prompt_tokens", "completion_tokens")] \
            == [1, 7, 8]


@pytest.mark.parametrize("dialect", ["ollama", "anthropic"])
@pytest.mark.parametrize("stream", [False, True])
def test_who_has_an_answer_may_ask_again_at_once(gateway, dialect, stream):
    """Though the child takes its time for the last bytes of its framing, which carry nothing."""
    held = threading.Event()

    def play(conversation):
        conversation.send(STREAM_HEAD + chunked(event(delta("x", finish="stop")), b"data: [DONE]\n\n", last=False))
        if not held.is_set():
            held.set()
            conversation.client_closes(0.05)
        conversation.send(b"0\r\n\r\n")
    gateway.rename_child(2 + stream + 2 * (dialect == "ollama"))
    gateway.child.play = play
    before = gateway.child.connections
    for _ in range(3):
        assert gateway.ask(dialect, key(f"busy_{dialect}"), stream=stream).status == 200
    eventually(lambda: gateway.child.received[2:])
    assert gateway.child.connections - before <= 2, "the connection was kept"


def test_what_another_worker_counts_meanwhile_counts_here_too(gateway):
    """As while gunicorn replaces a worker: the supervisor passes its last counts on."""
    row = {"key": "two", "day": datetime.now(UTC).date().isoformat(), "model": MODEL, "requests": 2,
           "prompt_tokens": 300, "completion_tokens": 600, "steps": [[int(time.monotonic() * STEPS), 2, 900]]}
    gateway.supervisor.link().note("spent", usage=[row, {**row, "key": "nobody"}])
    eventually(lambda: gateway.request("GET", "/v1/models", headers=key("two"))
               .headers["x-ratelimit-remaining-tokens"] == "100")
    refused = gateway.ask("openai", key("two"), max_tokens=200)
    assert refused.status == 429 and "used or reserved 900" in is_error_of("openai", refused)
    assert gateway.ask("openai", key("two"), max_tokens=10).status == 200
    refused = gateway.ask("openai", key("two"), max_tokens=10)
    assert refused.status == 429 and "had 3 in the last minute" in is_error_of("openai", refused)
