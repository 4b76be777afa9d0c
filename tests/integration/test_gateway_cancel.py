"""What a client that leaves, stalls or half-closes costs the child, seen at the child's end of its connection."""

import json
import socket
import threading
import time

import pytest

from tests.support.fake_supervisor import eventually
from tests.support.gateway_under_test import ASK, GatewayUnderTest, post, read_until
from tests.support.leaving import fin, half, reset
from tests.support.scripted_child import STREAM_HEAD, chunked, delta, event
from tests.support.transports import TRANSPORTS

AT_ONCE = 0.05
"""Seconds between the client's end and the end of the child's connection."""
TRIES = 3
"""What only a busy machine can spoil is tried again."""
PHASES = {
    # what the child has sent by then
    "prompt": b"",
    "head": STREAM_HEAD,
    "generation": STREAM_HEAD + chunked(event(delta("", role="assistant")), event(delta("one")), last=False),
    "half an event": STREAM_HEAD + chunked(b'data: {"choices":', last=False),
}


def after_another_request(sock):
    sock.sendall(b"GET /api/version HTTP/1.1\r\nHost: localhost\r\n\r\n")
    sock.close()


@pytest.fixture(scope="module", params=TRANSPORTS)
def shared(request, tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("cancel"), {"client_write_timeout_secs": 1},
                          transport=request.param) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    yield shared.fresh()
    assert "Traceback" not in shared.supervisor.log()


class Watched:
    """A child that plays `begin`, then waits for the end of its connection and notes the time."""

    def __init__(self, gateway: GatewayUnderTest, begin: bytes) -> None:
        self.sent = threading.Event()
        self.closed_at: list[float] = []
        self._begin = begin
        gateway.child.play = self._play

    def _play(self, talk):
        talk.send(self._begin)
        self.sent.set()
        if talk.client_closes(5):
            self.closed_at.append(time.monotonic())


def ask(gateway, dialect, stream):
    path, body = ASK[dialect]
    sock = gateway.connect()
    sock.sendall(post(path, json.dumps({**body, "stream": stream}).encode()))
    return sock


def idle(gateway):
    """Whether the gateway has told the supervisor that no lease is out."""
    reports = gateway.supervisor.notes("report")
    return reports and not any(child["in_flight"] for child in reports[-1]["children"].values())


@pytest.mark.parametrize("dialect", ASK)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "buffered"])
@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("leave", [fin, reset, half, after_another_request])
def test_the_childs_connection_ends_at_once(gateway, dialect, stream, phase, leave):
    def seconds() -> float:
        child = Watched(gateway, PHASES[phase])
        sock = ask(gateway, dialect, stream)
        assert child.sent.wait(5)
        if phase == "generation" and stream:
            read_until(sock, b"one")
        left_at = time.monotonic()
        leave(sock)
        eventually(lambda: child.closed_at, 3, "end of the child's connection")
        sock.close()
        return child.closed_at[0] - left_at

    taken = []
    while not taken or (taken[-1] >= AT_ONCE and len(taken) < TRIES):
        taken.append(seconds())
    print(*(f"{one:.4f} s" for one in taken))
    assert taken[-1] < AT_ONCE
    assert len(gateway.child.received) == len(taken)


@pytest.mark.parametrize("dialect", ASK)
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "buffered"])
def test_a_client_that_leaves_during_a_load_stops_it_for_nobody(tmp_path, dialect, stream):
    with GatewayUnderTest(tmp_path, {"singleflight": False}, loaded=False) as gateway:
        gateway.supervisor.load_seconds = 1.0
        leaving = {leave: ask(gateway, dialect, stream) for leave in (fin, reset)}
        staying = ask(gateway, dialect, stream)
        eventually(lambda: len(gateway.supervisor.notes("ensure_ready")) == 3)
        for leave, sock in leaving.items():
            leave(sock)
        assert read_until(staying, b"\r\n").startswith(b"HTTP/1.1 200 ")
        staying.close()
        eventually(lambda: idle(gateway), 5)
        assert len(gateway.child.received) == 1


@pytest.mark.parametrize("dialect", ASK)
def test_a_client_that_reads_nothing_is_cancelled(gateway, dialect):
    ended = []

    def flood(talk):
        piece = chunked(event(delta("x" * 60_000)), last=False)
        try:
            talk.send(STREAM_HEAD)
            while True:
                talk.send(piece)
        except OSError:
            ended.append(time.monotonic())
    gateway.child.play = flood
    sock = ask(gateway, dialect, True)
    read_until(sock, b"\r\n\r\n")
    began = time.monotonic()
    assert gateway.request("GET", "/api/version").status == 200
    eventually(lambda: ended, 15, "cancellation")
    assert ended[0] - began > 0.9
    eventually(lambda: idle(gateway), 5)
    sock.close()


def test_a_client_that_reads_slowly_is_served(gateway):
    pieces = [delta("x" * 30_000) for _ in range(100)]
    gateway.child.play = lambda talk: talk.send(STREAM_HEAD + chunked(*map(event, pieces), b"data: [DONE]\n\n"))
    sock = ask(gateway, "openai", True)
    got = bytearray()
    while not got.endswith(b"0\r\n\r\n"):
        got += sock.recv(100_000)
        time.sleep(0.05)
    assert got.count(b"x" * 30_000) == 100
    sock.close()


def test_a_stalled_client_that_leaves_is_noticed_before_its_timeout(tmp_path):
    with GatewayUnderTest(tmp_path, {"client_write_timeout_secs": 60}) as gateway:
        closed = []

        def flood(talk):
            try:
                talk.send(STREAM_HEAD)
                while True:
                    talk.send(chunked(event(delta("x" * 60_000)), last=False))
                    sending[:] = [time.monotonic()]
            except OSError:
                closed.append(time.monotonic())
        sending = [time.monotonic()]
        gateway.child.play = flood
        sock = ask(gateway, "openai", True)
        read_until(sock, b"\r\n\r\n")
        eventually(lambda: time.monotonic() - sending[0] > 0.5, 10, "back-pressure")
        sock.shutdown(socket.SHUT_WR)
        eventually(lambda: closed, 2, "end of the child's connection")
        eventually(lambda: idle(gateway), 5)
        sock.close()
