"""The gateway and its supervisor: loads, leases, drains, lost connections, and how a worker ends."""

import json
import os
import resource
import signal
import threading
import time
from datetime import UTC, datetime

import pytest

from tests.support.certificates import certificate
from tests.support.fake_supervisor import endpoint, eventually
from tests.support.gateway_under_test import ASK, MODEL, GatewayUnderTest, is_error_of, post, read_all, read_until
from tests.support.scripted_child import STREAM_HEAD, ScriptedChild, chunked, delta, event, hello_world

DONE = b"data: [DONE]\n\n"
CHILD = f"{MODEL}#1"


@pytest.fixture
def gateway(tmp_path):
    with GatewayUnderTest(tmp_path) as gateway:
        yield gateway


@pytest.fixture
def cold(tmp_path):
    """A gateway whose model is installed and not loaded."""
    with GatewayUnderTest(tmp_path, loaded=False) as gateway:
        yield gateway


class Stream:
    """A stream under way: the child has sent one token and waits for `go_on`."""

    def __init__(self, gateway: GatewayUnderTest, dialect: str = "openai") -> None:
        self._on = threading.Event()
        self.child_saw_close: list[bool] = []
        gateway.child.play = self._play
        path, body = ASK[dialect]
        self.sock = gateway.connect()
        self.sock.sendall(post(path, json.dumps({**body, "stream": True}).encode()))
        self.got = read_until(self.sock, b"one")

    def _play(self, talk):
        talk.send(STREAM_HEAD + chunked(event(delta("one")), last=False))
        if not self._on.wait(10):
            return
        talk.send(chunked(event(delta(" two", finish="stop")), DONE))

    def go_on(self) -> None:
        self._on.set()

    def rest(self) -> bytes:
        self.got += read_all(self.sock)
        self.sock.close()
        return self.got


# -- loads -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", ASK)
def test_first_request_waits_for_the_load(cold, dialect):
    cold.supervisor.load_seconds = 0.3
    began = time.monotonic()
    answer = cold.ask(dialect, stream=False)
    assert answer.status == 200 and time.monotonic() - began >= 0.3
    if dialect == "ollama":
        assert answer.json()["load_duration"] >= 300_000_000


def test_a_loaded_model_needs_no_word_of_the_supervisor(gateway):
    for _ in range(3):
        assert gateway.ask("openai").status == 200
    assert gateway.supervisor.notes("ensure_ready") == []


@pytest.mark.parametrize("dialect", ASK)
@pytest.mark.parametrize("stream", [False, True])
def test_a_failed_load_is_told_in_the_dialect(cold, dialect, stream):
    """Of FC-02: nothing was committed before, so it is a status and no event."""
    cold.supervisor.loadable.clear()
    answer = cold.ask(dialect, stream=stream)
    assert answer.status == 503 and "did not load: the stub was told so" in is_error_of(dialect, answer)


def test_twenty_waiting_requests_do_not_hold_up_others(cold):
    cold.supervisor.load_seconds = 1.0
    path, body = ASK["openai"]
    waiting = [cold.connect() for _ in range(20)]
    for number, sock in enumerate(waiting):
        sock.sendall(post(path, json.dumps({**body, "seed": number}).encode(), "Connection: close"))
    eventually(lambda: len(cold.supervisor.notes("ensure_ready")) == 20)
    began = time.monotonic()
    assert cold.request("GET", "/api/version").status == 200
    assert time.monotonic() - began < 0.5
    for sock in waiting:
        assert b"200 OK" in read_all(sock)
        sock.close()


def test_a_client_that_leaves_during_the_load_reaches_no_child(cold):
    cold.supervisor.load_seconds = 0.5
    with cold.connect() as sock:
        sock.sendall(post(ASK["openai"][0], json.dumps(ASK["openai"][1]).encode()))
        eventually(lambda: cold.supervisor.notes("ensure_ready"))
    eventually(lambda: cold.supervisor.loaded)
    assert cold.ask("openai").status == 200
    assert len(cold.child.received) == 1
    assert "Traceback" not in cold.supervisor.log()


def test_a_dead_child_is_found_out_and_the_supervisor_asked(gateway):
    with ScriptedChild(hello_world) as reborn:
        gateway.child.stop()
        gateway.supervisor.loadable[MODEL] = endpoint(MODEL, reborn.address, 2)
        assert gateway.ask("openai").status == 200
        assert len(reborn.received) == 1 and len(gateway.supervisor.notes("ensure_ready")) == 1


def test_a_child_that_stays_unreachable_is_a_502_after_two_attempts(gateway):
    gateway.child.stop()
    answer = gateway.ask("openai")
    assert answer.status == 502 and "does not accept connections" in is_error_of("openai", answer)
    assert len(gateway.supervisor.notes("ensure_ready")) == 1


# -- Ollama's load, unload and keep_alive ------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/api/generate", "/api/chat"])
def test_a_request_without_a_prompt_loads_and_unloads(cold, path):
    answer = cold.request("POST", path, {"model": "solo", "keep_alive": "10m"})
    assert answer.status == 200 and (answer.json()["done"], answer.json()["done_reason"]) == (True, "load")
    assert cold.supervisor.loaded and cold.child.received == []
    note, = eventually(lambda: cold.supervisor.notes("keep_alive"))
    assert (note["model"], note["seconds"]) == (MODEL, 600)
    answer = cold.request("POST", path, {"model": "solo", "keep_alive": 0})
    assert answer.status == 200 and answer.json()["done_reason"] == "unload"
    assert not cold.supervisor.loaded
    assert cold.request("GET", "/api/ps").json() == {"models": []}


@pytest.mark.parametrize(("value", "seconds"), [(0, 0), ("0s", 0), (-1, -1), ("1h30m", 5400), (0.5, 0.5), (300, 300)])
def test_keep_alive_is_noted_after_the_exchange(gateway, value, seconds):
    gateway.request("POST", "/api/generate", {"model": MODEL, "prompt": "x", "stream": False, "keep_alive": value})
    note, = eventually(lambda: gateway.supervisor.notes("keep_alive"))
    assert note["model"] == MODEL
    assert note["seconds"] == seconds or (note["seconds"] < 0 and seconds < 0)


def test_without_keep_alive_nothing_is_noted(gateway):
    gateway.ask("ollama", stream=False, keep_alive=None)
    gateway.ask("openai")
    eventually(lambda: len(gateway.supervisor.notes("beat")) >= 2)
    assert gateway.supervisor.notes("keep_alive") == []


def test_ps_tells_when_a_model_will_be_unloaded(gateway):
    def left() -> float:
        model, = gateway.request("GET", "/api/ps").json()["models"]
        return datetime.fromisoformat(model["expires_at"]).astimezone(UTC).timestamp() - time.time()
    assert 295 < left() <= 301
    gateway.supervisor.loaded[MODEL] = endpoint(MODEL, gateway.child.address, keep_alive=-1.0)
    gateway.supervisor.push()
    eventually(lambda: left() > 365 * 86400)


# -- leases and reports ------------------------------------------------------------------------------------


def test_use_is_reported_and_told(gateway):
    stream = Stream(gateway)
    asked = gateway.supervisor.link().ask("usage", 5)
    assert asked["children"][CHILD]["in_flight"] == 1
    eventually(lambda: any(message["children"].get(CHILD, {}).get("in_flight") == 1
                           for message in gateway.supervisor.notes("report")))
    stream.go_on()
    read_until(stream.sock, b"0\r\n\r\n")
    eventually(lambda: gateway.supervisor.notes("report")[-1]["children"][CHILD]["in_flight"] == 0)
    used = gateway.supervisor.notes("report")[-1]["children"][CHILD]["last_used"]
    assert 0 <= time.monotonic() - used < 5


def test_drain_is_answered_once_the_last_stream_has_ended(gateway):
    stream = Stream(gateway)
    drained = threading.Event()
    gateway.supervisor.link().ask_later("drain", lambda answer: drained.set(), child_id=CHILD)
    eventually(lambda: gateway.supervisor.link().ask("usage", 5))
    assert not drained.is_set()
    stream.go_on()
    assert drained.wait(5)
    stream.sock.close()


def test_a_draining_child_gets_nothing_new(gateway):
    gateway.supervisor.link().ask("drain", 5, child_id=CHILD)
    with ScriptedChild(hello_world) as reborn:
        gateway.supervisor.loadable[MODEL] = endpoint(MODEL, reborn.address, 2)
        assert gateway.ask("openai").status == 200
        assert len(reborn.received) == 1 and gateway.child.received == []


def test_a_lost_control_connection_is_made_again_and_leases_declared(gateway):
    stream = Stream(gateway)
    gateway.supervisor.close_control()
    assert gateway.request("GET", "/api/tags").status == 200
    answer = gateway.request("POST", "/api/show", {"model": MODEL})
    assert answer.status == 503 and "supervisor" in is_error_of("ollama", answer)
    gateway.supervisor.open_control()
    gateway.supervisor.wait_for_hello(2)
    assert gateway.supervisor.notes("hello")[-1]["leases"] == {CHILD: 1}
    stream.go_on()
    assert b"two" in read_until(stream.sock, b"0\r\n\r\n")
    stream.sock.close()
    eventually(lambda: gateway.request("POST", "/api/show", {"model": MODEL}).status == 200)


def test_it_beats(gateway):
    eventually(lambda: len(gateway.supervisor.notes("beat")) >= 2, 4)


# -- the end of a worker -------------------------------------------------------------------------------------


def test_idle_connections_close_at_once_and_streams_are_finished(gateway):
    stream = Stream(gateway)
    with gateway.connect() as idle, gateway.connect() as used:
        used.sendall(b"GET /api/version HTTP/1.1\r\nHost: localhost\r\n\r\n")
        read_until(used, b"}")
        began = time.monotonic()
        gateway.supervisor.process.terminate()
        assert read_all(idle) == read_all(used) == b""
        assert time.monotonic() - began < 2.5
    assert gateway.supervisor.process.poll() is None
    stream.go_on()
    assert stream.rest().endswith(DONE + b"\r\n0\r\n\r\n")
    assert gateway.supervisor.process.wait(5) == 0


@pytest.mark.parametrize("dialect", ASK)
def test_after_the_grace_a_stream_ends_with_an_error_of_its_dialect(gateway, dialect):
    stream = Stream(gateway, dialect)
    began = time.monotonic()
    gateway.supervisor.link().note("stopping", grace=0.5)
    gateway.supervisor.process.terminate()
    got = stream.rest()
    assert 0.4 < time.monotonic() - began < 3
    assert got.endswith(b"0\r\n\r\n") and b"Blazar is stopping and ended this request" in got
    if dialect == "anthropic":
        assert b"event: error" in got
    assert gateway.supervisor.process.wait(5) == 0


def test_after_the_grace_a_waiting_request_is_told(cold):
    cold.supervisor.load_seconds = 8
    sock = cold.connect()
    sock.sendall(post("/api/chat", json.dumps(ASK["ollama"][1]).encode()))
    eventually(lambda: cold.supervisor.notes("ensure_ready"))
    cold.supervisor.link().note("stopping", grace=0.2)
    cold.supervisor.process.terminate()
    got = read_all(sock)
    assert b"HTTP/1.1 503 " in got and b"Blazar is stopping" in got
    sock.close()


def test_a_killed_worker_is_replaced_and_ends_its_streams_visibly(gateway):
    stream = Stream(gateway)
    os.kill(gateway.supervisor.worker_pid(), signal.SIGKILL)
    try:
        assert not stream.rest().endswith(b"0\r\n\r\n")
    except ConnectionResetError:
        pass
    gateway.supervisor.wait_for_hello(2)
    gateway.child.play = hello_world
    assert gateway.ask("openai").status == 200


def test_interrupt_ends_it_at_once_under_a_live_stream(gateway):
    stream = Stream(gateway)
    gateway.supervisor.process.send_signal(signal.SIGINT)
    assert gateway.supervisor.process.wait(3) == 0
    stream.sock.close()


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_above_the_limit_of_connections_there_is_a_503(tmp_path, tls):
    """Or, with TLS, an end at once, before the handshake."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (148, hard))
    try:
        gateway = GatewayUnderTest(tmp_path, certificate=certificate(tmp_path) if tls else None)
        gateway.__enter__()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    try:
        open_ones = []
        for _ in range(10):  # 148 / 2 - 64
            sock = gateway.connect()
            sock.sendall(b"GET /api/version HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b"200 OK" in read_until(sock, b"}")
            open_ones.append(sock)
        if tls:
            began = time.monotonic()
            for _ in range(100):
                with gateway.connect_bare() as sock:
                    assert read_all(sock) == b""
            assert time.monotonic() - began < 5
        else:
            assert gateway.raw(b"").startswith(b"HTTP/1.1 503 ")
        assert tls != answers(gateway, 503) and not answers(gateway, 200)
        open_ones.pop().close()
        eventually(lambda: answers(gateway, 200))
        for sock in open_ones:
            sock.close()
    finally:
        gateway.__exit__()


def answers(gateway, status):
    """Whether a new connection is answered so, and not ended before."""
    try:
        return gateway.request("GET", "/api/version").status == status
    except OSError:
        return False
