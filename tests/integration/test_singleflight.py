"""Identical chats at the same time get one answer; whatever shapes the answer keeps them apart (FC-04, FC-05)."""

import contextlib
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support import exposition
from tests.support.fake_supervisor import eventually
from tests.support.fronts import open_front
from tests.support.gateway_under_test import ASK, MODEL, GatewayUnderTest, is_error_of, post, read_all
from tests.support.scripted_child import STREAM_HEAD, chunked, delta, events, json_answer

KEYS = [{"name": "ann", "key": "sk-ann"}, {"name": "bob", "key": "sk-bob"},
        {"name": "cut", "key": "sk-cut", "models": ["other"]}]
ANN, BOB, CUT = ({"Authorization": f"Bearer sk-{name}"} for name in ("ann", "bob", "cut"))
DIALECTS = ("openai", "ollama", "anthropic")
PIXEL = ("data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU"
         "5ErkJggg==")
PICTURE = [{"role": "user", "content": [{"type": "text", "text": "hi"},
                                        {"type": "image_url", "image_url": {"url": PIXEL}}]}]
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}


class Counting:
    """Says which run it is, once it is let go; a run whose connection is closed before is noted."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.runs = 0
        self.answers = {}
        """By number of the run: how it answers, where that is not with its number."""
        self._lock = threading.Lock()

    def __call__(self, talk) -> None:
        with self._lock:
            self.runs += 1
            number = self.runs
        self.go.wait(10)
        if number in self.answers:
            self.answers[number](talk)
        elif json.loads(talk.request.body).get("stream"):
            usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
            talk.send(STREAM_HEAD + chunked(*events([delta(f"run {number}"), delta(finish="stop"), usage])))
        else:
            talk.send(json_answer(json.dumps({
                "choices": [{"message": {"content": f"run {number}"}}],
                "usage": {"prompt_tokens": 3, "completion_tokens": 2}}).encode()))


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("flight"), {"keys": KEYS}, sees=True) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    shared.fresh()
    shared.child.play = Counting()
    yield shared
    shared.child.play.go.set()
    eventually(lambda: in_flight(shared) == 0)
    assert "Traceback" not in shared.supervisor.log()


def numbers(gateway):
    return exposition.read(gateway.request("GET", "/metrics", headers=ANN).body.decode())


def in_flight(gateway):
    return exposition.value(numbers(gateway), "blazar_requests_in_flight")


def lines(gateway):
    return [json.loads(line) for line in gateway.supervisor.paths.audit_log.read_text().splitlines()]


@contextlib.contextmanager
def at_once(gateway, *asked):
    """The answers of several questions, each a dialect, headers and fields, that are all under way before the child
    answers; what is in the block happens in between."""
    with ThreadPoolExecutor(len(asked)) as threads:
        answers = []
        for number, (dialect, headers, more) in enumerate(asked):
            answers.append(threads.submit(gateway.ask, dialect, headers, **{"stream": False, **more}))
            eventually(lambda number=number: in_flight(gateway) == number + 1)
        yield (answer.result for answer in answers)
        gateway.child.play.go.set()


def told(gateway, *asked):
    with at_once(gateway, *asked) as answers:
        pass
    return [answer() for answer in answers]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_identical_chats_get_one_answer(gateway, dialect):
    before = numbers(gateway)
    answers = told(gateway, *[(dialect, ANN, {}) for _ in range(4)])
    assert gateway.child.play.runs == 1
    assert {answer.status for answer in answers} == {200} and len({answer.body for answer in answers}) == 1
    assert b"run 1" in answers[0].body
    assert [answer.headers.get("x-blazar-coalesced") for answer in answers] == [None, "true", "true", "true"]
    assert len({answer.headers["x-request-id"] for answer in answers}) == 4
    assert len({answer.headers["content-type"] for answer in answers}) == 1
    after = numbers(gateway)
    labels = {"dialect": dialect, "model": MODEL}
    assert exposition.value(after, "blazar_coalesced_total", **labels) \
        - exposition.value(before, "blazar_coalesced_total", **labels) == 3
    ours = {answer.headers["x-request-id"] for answer in answers}
    noted = eventually(lambda: len(found := [line for line in lines(gateway) if line["id"] in ours]) == 4 and found)
    assert sorted((line["coalesced"], line["status"], line["key"], line["completion_tokens"]) for line in noted) == [
        (False, 200, "ann", 2), *[(True, 200, "ann", 0)] * 3]


DIFFERENT = [
    # one more field, or header, than the plain question has
    *[("openai", {}, more) for more in (
        {"temperature": 0.5}, {"max_tokens": 7}, {"stop": ["x"]}, {"seed": 3}, {"tools": [TOOL]}, {"n": 2},
        {"user": "u"}, {"response_format": {"type": "json_object"}}, {"messages": PICTURE})],
    ("openai", {"X-Blazar-Enforce": "off"}, {}),
    ("anthropic", {}, {"system": "be brief"}), ("anthropic", {}, {"max_tokens": 51}),
    ("ollama", {}, {"options": {"seed": 1}}), ("ollama", {}, {"keep_alive": "7m"}), ("ollama", {}, {"think": False}),
]


@pytest.mark.parametrize(("dialect", "headers", "more"), DIFFERENT, ids=str)
def test_what_shapes_the_answer_keeps_requests_apart(gateway, dialect, headers, more):
    form = {"response_format": {"type": "json_object"}} if headers else {}
    first, second = told(gateway, (dialect, ANN, form), (dialect, {**ANN, **headers}, {**form, **more}))
    assert (first.status, second.status) == (200, 200), (first, second)
    assert gateway.child.play.runs == 2
    assert "x-blazar-coalesced" not in second.headers


def test_keys_and_dialects_are_kept_apart(gateway):
    answers = told(gateway, ("openai", ANN, {}), ("openai", BOB, {}), ("ollama", ANN, {}), ("anthropic", ANN, {}))
    assert gateway.child.play.runs == 4 and {answer.status for answer in answers} == {200}


def test_a_key_without_the_model_is_refused_while_the_answer_is_under_way(gateway):
    with at_once(gateway, ("openai", ANN, {})) as answers:
        refused = gateway.ask("openai", CUT)
        assert refused.status == 403 and gateway.child.play.runs <= 1
    assert [answer().status for answer in answers] == [200]


def test_streams_and_stored_completions_are_each_their_own(gateway):
    told(gateway, *[("openai", ANN, {"stream": True})] * 2, *[("openai", ANN, {"store": True})] * 2)
    assert gateway.child.play.runs == 4


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_leader_leaves_and_the_follower_has_its_answer(gateway, dialect):
    path, body = ASK[dialect]
    raw = json.dumps({**body, "stream": False}).encode()
    with gateway.connect() as leader:
        leader.sendall(post(path, raw, "Authorization: Bearer sk-ann"))
        eventually(lambda: gateway.child.play.runs == 1)
        with gateway.connect() as follower:
            follower.sendall(post(path, raw, "Authorization: Bearer sk-ann", "Connection: close"))
            eventually(lambda: in_flight(gateway) == 2)
            leader.close()
            time.sleep(0.05)  # time enough for the gateway to see it, which must change nothing
            gateway.child.play.go.set()
            got = read_all(follower)
    assert b" 200 " in got and b"run 1" in got and gateway.child.play.runs == 1
    gone = eventually(lambda: [line for line in lines(gateway) if line["client_gone"]][-1:])
    assert gone[0]["status"] == 499 and gone[0]["completion_tokens"] == 2
    gateway.child.play.answers.clear()
    assert b"run 2" in gateway.ask(dialect, ANN, stream=False).body, "the next one is run anew"


def test_when_all_have_left_the_run_ends(gateway):
    ended = threading.Event()
    gateway.child.play = lambda talk: ended.set() if talk.client_closes(10) else None
    raw = json.dumps({**ASK["openai"][1], "stream": False}).encode()
    with gateway.connect() as leader, gateway.connect() as follower:
        for number, sock in enumerate((leader, follower)):
            sock.sendall(post(ASK["openai"][0], raw, "Authorization: Bearer sk-ann"))
            eventually(lambda number=number: in_flight(gateway) == number + 1)
        eventually(lambda: len(gateway.child.received) == 1)
        leader.close()
        time.sleep(0.05)  # the run goes on for the other
        assert not ended.is_set()
        follower.close()
        assert ended.wait(5)
    gateway.child.play = Counting()


FAILURES = {
    # how the child fails, and what each is told
    "500": (lambda talk: talk.send(json_answer(b'{"error":{"code":500,"message":"broken"}}', "500 Oops")), 500),
    "dies": (lambda talk: talk.close(), 502),
    "half": (lambda talk: (talk.send(b"HTTP/1.1 200 OK\r\nContent-Le"), talk.close()), 502),
}


@pytest.mark.parametrize("how", FAILURES)
def test_a_failure_of_the_child_is_told_to_all_at_once(gateway, how):
    play, status = FAILURES[how]
    gateway.child.drop()  # on a new connection nothing is tried twice
    gateway.child.play.answers[1] = play
    answers = told(gateway, *[("openai", ANN, {})] * 3)
    assert [answer.status for answer in answers] == [status] * 3 and gateway.child.play.runs == 1
    for answer in answers:
        assert "message" in answer.json()["error"]
    again = gateway.ask("openai", ANN, stream=False)
    assert again.status == 200 and b"run 2" in again.body


def test_an_answer_that_breaks_off_is_an_error_to_who_follows(gateway):
    def half(talk):
        talk.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{")
        talk.close()

    gateway.child.play.answers[1] = half
    raw = json.dumps({**ASK["openai"][1], "stream": False}).encode()
    with gateway.connect() as leader:
        leader.sendall(post(ASK["openai"][0], raw, "Authorization: Bearer sk-ann"))
        eventually(lambda: gateway.child.play.runs == 1)
        with ThreadPoolExecutor(1) as threads:
            follower = threads.submit(gateway.request, "POST", ASK["openai"][0], raw, ANN)
            eventually(lambda: in_flight(gateway) == 2)
            gateway.child.play.go.set()
            assert read_all(leader).endswith(b"\r\n\r\n{")
            answer = follower.result()
    assert answer.status == 502 and "middle of its answer" in is_error_of("openai", answer)


def test_nobody_waits_longer_than_five_seconds(gateway):
    """The leader's run hangs; whoever follows goes its own way in time."""
    gateway.child.play.go.set()
    held = threading.Event()
    gateway.child.play.answers[1] = lambda talk: held.wait(30)
    raw = json.dumps({**ASK["openai"][1], "stream": False}).encode()
    with gateway.connect() as leader:
        leader.sendall(post(ASK["openai"][0], raw, "Authorization: Bearer sk-ann"))
        eventually(lambda: gateway.child.play.runs == 1)
        began = time.monotonic()
        answer = gateway.ask("openai", ANN, stream=False)
        took = time.monotonic() - began
    held.set()
    assert b"run 2" in answer.body and "x-blazar-coalesced" not in answer.headers
    assert 4.5 < took < 9


def test_a_leader_that_waits_for_its_model_may_leave_too(tmp_path):
    with GatewayUnderTest(tmp_path, loaded=False) as gateway:
        gateway.supervisor.load_seconds = 1.0
        raw = json.dumps({**ASK["openai"][1], "stream": False}).encode()
        with gateway.connect() as leader, gateway.connect() as follower:
            leader.sendall(post(ASK["openai"][0], raw))
            eventually(lambda: gateway.supervisor.notes("ensure_ready"))
            follower.sendall(post(ASK["openai"][0], raw, "Connection: close"))
            eventually(lambda: b"blazar_requests_in_flight 2" in gateway.request("GET", "/metrics").body)
            leader.close()
            got = read_all(follower)
        assert b" 200 " in got and b"Hello world" in got and b"Coalesced" in got
        assert len(gateway.child.received) == 1 and len(gateway.supervisor.notes("ensure_ready")) == 1


def test_switched_off(tmp_path):
    with GatewayUnderTest(tmp_path, {"singleflight": False}) as gateway:
        gateway.child.play = Counting()
        with ThreadPoolExecutor(2) as threads:
            answers = [threads.submit(gateway.ask, "openai", stream=False) for _ in range(2)]
            eventually(lambda: gateway.child.play.runs == 2)
            gateway.child.play.go.set()
            assert {answer.result().status for answer in answers} == {200}


@pytest.mark.parametrize("front", ["tls", "stock"])
def test_the_leader_leaves_at_other_ways_in(tmp_path, front):
    raw = json.dumps({**ASK["openai"][1], "stream": False}).encode()
    with open_front(front, tmp_path) as gateway:
        play = gateway.child.play = Counting()
        with gateway.connect() as leader, gateway.connect() as follower:
            leader.sendall(post(ASK["openai"][0], raw))
            eventually(lambda: play.runs == 1)
            follower.sendall(post(ASK["openai"][0], raw, "Connection: close"))
            eventually(lambda: b"blazar_requests_in_flight 2" in gateway.request("GET", "/metrics").body)
            leader.close()
            time.sleep(0.05)
            play.go.set()
            got = read_all(follower)
        assert b" 200 " in got and b"run 1" in got and play.runs == 1
        assert "Traceback" not in gateway.supervisor.log()
