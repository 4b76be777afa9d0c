"""A child that accepts requests and does nothing, or stops in the middle: what clients of each dialect see."""

import itertools
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support import exposition
from tests.support.fake_supervisor import FakeSupervisor, endpoint, eventually
from tests.support.gateway_under_test import ASK, MODEL, GatewayUnderTest, is_error_of, post, read_all
from tests.support.scripted_child import STREAM_HEAD, chunked, delta, event, hello_world
from tests.support.transports import TRANSPORTS

CASES = [(dialect, stream) for dialect in ASK for stream in (False, True)]
KEYS = [{"name": "ann", "key": "sk-ann", "max_concurrent": len(CASES)}]
ANN = {"Authorization": "Bearer sk-ann"}
BEGINNING = STREAM_HEAD + chunked(event(delta("Half")), last=False)
TORN = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{\"choices\":"
TOLD = {"openai": b'data: {"error":{"message":', "ollama": b'{"error":"', "anthropic": b"event: error\n",
        "responses": b"event: response.failed\n"}
TCP = pytest.mark.parametrize("shared", ["tcp"], indirect=True)
"""For what has nothing to do with the transport."""
WHOLE = {"openai": b"[DONE]", "ollama": b'"done":true', "anthropic": b"message_stop",
         "responses": b"response.completed"}


class Replacing(FakeSupervisor):
    """Its next child is a good one."""

    mend = staticmethod(lambda: None)
    numbers = itertools.count(2)

    def _hear(self, link, message):
        if message["kind"] == "put_down":  # and only then what is asked next, as the real one does
            self.mend()
            self.loaded.clear()
            self.loadable[MODEL] = endpoint(MODEL, self.loadable[MODEL].address, next(self.numbers), slots=len(CASES))
        super()._hear(link, message)


class Guarded(GatewayUnderTest):
    """Its child has a slot for each of CASES, so that none is parked."""

    supervised = Replacing

    def __init__(self, *args, **more):
        super().__init__(*args, **more)
        many = endpoint(MODEL, self.child.address, slots=len(CASES))
        self.supervisor.loaded[MODEL] = self.supervisor.loadable[MODEL] = many


@pytest.fixture(scope="module", params=TRANSPORTS)
def shared(request, tmp_path_factory):
    settings = {"child_header_timeout_secs": 1, "sentinel_stall_secs": 1, "singleflight": False, "keys": KEYS}
    with Guarded(tmp_path_factory.mktemp("still"), settings, transport=request.param) as gateway:
        gateway.released = threading.Event()
        yield gateway


@pytest.fixture
def gateway(shared):
    shared.fresh()
    shared.released.clear()
    shared.supervisor.wedged = True
    shared.supervisor.mend = lambda: setattr(shared.child, "play", hello_world)
    yield shared
    shared.released.set()
    eventually(lambda: exposition.value(numbers(shared), "blazar_requests_in_flight") == 0)
    held = [child["in_flight"] for child in shared.supervisor.link().ask("usage", 5)["children"].values()]
    assert sum(held) == 0, "all leases are back"
    assert "Traceback" not in shared.supervisor.log()


def numbers(gateway):
    return exposition.read(gateway.request("GET", "/metrics", headers=ANN).body.decode())


def silent(gateway):
    def play(talk):
        gateway.released.wait(30)
        talk.close()
    return play


def stalling(gateway):
    """Sends a beginning and no more."""
    def play(talk):
        talk.send(BEGINNING if json.loads(talk.request.body).get("stream") else TORN)
        silent(gateway)(talk)
    return play


def ask_all(gateway):
    """The raw answers to each dialect's question, streamed and not, all at once."""
    def ask(case):
        path, body = ASK[case[0]]
        with gateway.connect() as sock:
            sock.settimeout(30)
            sock.sendall(post(path, json.dumps({**body, "stream": case[1]}).encode(), "Connection: close",
                              "Authorization: Bearer sk-ann", f"X-Request-Id: {case[0]}-{case[1]}"))
            return read_all(sock)
    before = len(audit(gateway))
    with ThreadPoolExecutor(len(CASES)) as threads:
        answers = dict(zip(CASES, threads.map(ask, CASES), strict=True))
    eventually(lambda: len(audit(gateway)) == before + len(CASES), what="audit lines")
    return answers, {line["id"]: line for line in audit(gateway)[before:]}


def audit(gateway):
    log = gateway.supervisor.paths.audit_log
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def test_a_silent_child_that_has_nothing_to_do_is_replaced(gateway):
    gateway.child.play = silent(gateway)
    answers, lines = ask_all(gateway)
    for (dialect, stream), answer in answers.items():
        assert answer.startswith(b"HTTP/1.1 200 ") and b"world" in answer, (dialect, stream, answer)
        assert not stream or WHOLE[dialect] in answer
    assert {(line["status"], line["error"]) for line in lines.values()} == {(200, None)}
    assert len(gateway.supervisor.notes("put_down")) == 1, "it is ended once, whoever finds out"
    assert {note["stalled"] for note in gateway.supervisor.notes("examine")} == {False}


def test_a_silent_child_that_works_stays(gateway):
    gateway.child.play = silent(gateway)
    gateway.supervisor.wedged = False
    with ThreadPoolExecutor(len(CASES)) as threads:
        answers = dict(zip(CASES, threads.map(lambda case: gateway.ask(case[0], ANN, stream=case[1]), CASES),
                           strict=True))
    for (dialect, _), answer in answers.items():
        assert answer.status == 504
        message = is_error_of(dialect, answer)
        assert "stream the request" in message and "child_header_timeout_secs" in message
    assert not gateway.supervisor.notes("put_down")


@TCP
def test_a_successor_that_is_silent_too(gateway):
    gateway.supervisor.mend = lambda: None
    gateway.child.play = silent(gateway)
    answer = gateway.ask("anthropic", ANN)
    assert answer.status == 502 and "standstill" in is_error_of("anthropic", answer)
    eventually(lambda: len(gateway.supervisor.notes("put_down")) == 2)  # a note: the client's answer may be there first
    assert len(gateway.child.received) == 2


def test_a_child_that_stops_in_the_middle_is_ended(gateway):
    """Who has the beginning is told inside the stream; who was told nothing yet has the successor's answer."""
    gateway.child.play = stalling(gateway)
    before = numbers(gateway)
    answers, lines = ask_all(gateway)
    for (dialect, stream), answer in answers.items():
        line = lines[f"{dialect}-{stream}"]
        assert answer.startswith(b"HTTP/1.1 200 "), (dialect, stream, answer)
        if stream:
            assert b"Half" in answer and TOLD[dialect] in answer and b"standstill" in answer, (dialect, answer)
            assert WHOLE[dialect] not in answer
            assert (line["status"], line["error"]) == (200, "child-wedged") and line["completion_tokens"] > 0
        elif dialect == "openai":
            assert b"Content-Length: 99" in answer and answer.endswith(b'{"choices":'), "visibly unfinished"
            assert (line["status"], line["error"]) == (200, "child-wedged")
        else:
            assert b"Hello world" in answer and line["error"] is None, (dialect, answer)
    after = numbers(gateway)
    for name, rise in (("blazar_wedged_children_total", 1), ("blazar_retries_total", 3)):
        labels = {"model": MODEL} if "wedged" in name else {}
        assert exposition.value(after, name, **labels) - exposition.value(before, name, **labels) == rise, name
    assert exposition.value(after, "blazar_stalled_answers_total", model=MODEL, outcome="ended") >= len(CASES)
    assert "brought nothing for 1 s; it is ended" in gateway.supervisor.log()


@TCP
def test_a_child_that_pauses_while_it_works_is_left_alone(gateway):
    gateway.supervisor.wedged = False
    rest = threading.Event()

    def play(talk):
        talk.send(BEGINNING)
        rest.wait(30)
        talk.send(chunked(event(delta(" done", "stop")), b"data: [DONE]\n\n"))
    gateway.child.play = play
    with ThreadPoolExecutor(1) as threads:
        answer = threads.submit(gateway.ask, "openai", ANN, stream=True)
        eventually(lambda: len(gateway.supervisor.notes("examine")) >= 2, 20)
        rest.set()
        assert b" done" in answer.result().body and answer.result().body.endswith(b"data: [DONE]\n\n")
    assert not gateway.supervisor.notes("put_down")
    assert exposition.value(numbers(gateway), "blazar_stalled_answers_total", model=MODEL, outcome="kept") >= 1


@TCP
def test_a_client_that_does_not_read_is_no_stall_of_the_child(gateway):
    """What the child has sent lies there; it is not its fault that nobody takes it."""
    def play(talk):
        talk.send(STREAM_HEAD)
        while not gateway.released.is_set():
            talk.send(chunked(event(delta("x" * 60000)), last=False))
    gateway.child.play = play
    with gateway.connect() as sock:
        sock.sendall(post(ASK["openai"][0], json.dumps({**ASK["openai"][1], "stream": True}).encode(),
                          "Authorization: Bearer sk-ann"))
        eventually(lambda: gateway.child.received)
        time.sleep(3.5)  # longer than the window and a look
        assert not gateway.supervisor.notes("examine")
    gateway.released.set()
