"""How long the worker waits for its clients: the limits as they are, at a clock that leaps.

Nobody sets a timer for a client: once a second the worker looks at who has waited too long. So after a leap that look
ends all who are over their limit, and nobody else.
"""

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import pytest

from blazar.proxy.serve import KEPT_ALIVE
from blazar.proxy.wire.client import READ_TIMEOUT
from blazar.proxy.wire.conversation import HEAD_TIMEOUT
from tests.support.fake_supervisor import FakeSupervisor, eventually
from tests.support.gateway_under_test import ASK, GatewayUnderTest, post, read_all, read_until
from tests.support.scripted_child import hello_world
from tests.support.turned_clock import TurnedClock

CHAT = ASK["ollama"][0]
BODY = json.dumps({**ASK["ollama"][1], "stream": False}).encode()
ASKED = {
    # how a request comes, by the short way or by gunicorn's parser
    "ordinary": post(CHAT, BODY),
    "odd": post(CHAT, BODY, "X_Odd: 1"),
    "chunked": f"POST {CHAT} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
               + b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY),
}
IN_HEAD = 40
"""Bytes that end within each of the heads."""
FROM_END = 20
"""Bytes from the end of each, within its body."""


class LeapingSupervisor(FakeSupervisor):
    """Its gateway goes by `clock`."""

    def __init__(self, folder, *args, **more):
        super().__init__(folder, *args, **more)
        self.clock = TurnedClock(folder)

    def environment(self):
        return self.clock.environment


class Leaping(GatewayUnderTest):
    supervised = LeapingSupervisor

    def serves(self):
        """Others are served; so whoever came before is waited for by now."""
        assert self.request("GET", "/api/version").status == 200

    def leap(self, seconds):
        """Let so much time pass at once for those who are waited for."""
        self.serves()
        self.supervisor.clock.leap(round(seconds))


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    config = {"child_header_timeout_secs": 0, "sentinel": False, "singleflight": False}
    with Leaping(tmp_path_factory.mktemp("patience"), config) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    yield shared.fresh()
    assert "Traceback" not in shared.supervisor.log()


@pytest.fixture
def connect(gateway):
    with ExitStack() as stack:
        yield lambda: stack.enter_context(gateway.connect())


def asks(sock):
    """Have a request answered on this connection."""
    sock.sendall(b"GET /api/version HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert read_until(sock, b"}").startswith(b"HTTP/1.1 200 ")


def begun(connect, end):
    """A connection for each kind of request, on which that was sent up to `end`."""
    sockets = {kind: connect() for kind in ASKED}
    for kind, sock in sockets.items():
        sock.sendall(ASKED[kind][:end])
    return sockets


def ended_late(sock):
    """The request on this connection took too long, and it was its last one."""
    head, _, body = read_all(sock).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ") and b"Connection: close" in head
    return json.loads(body)["error"]


def test_idle_connections_are_closed_and_busy_ones_stay(gateway, connect):
    goes_on = threading.Event()

    def wait(conversation):
        assert goes_on.wait(20)
        hello_world(conversation)

    gateway.child.play = wait
    with ThreadPoolExecutor(1) as pool:
        try:
            busy = pool.submit(gateway.ask, "openai")
            eventually(lambda: gateway.child.received)
            silent, used = connect(), connect()
            asks(used)
            gateway.leap(KEPT_ALIVE * 0.6)
            younger, again = connect(), connect()
            asks(again)
            gateway.leap(KEPT_ALIVE * 0.6)
            assert read_all(silent) == read_all(used) == b""
            for sock in (younger, again):
                asks(sock)
            assert not busy.done()
        finally:
            goes_on.set()
        assert busy.result().status == 200


def test_slow_heads_are_a_408_and_a_byte_now_and_then_does_not_prolong_it(gateway, connect):
    slow = begun(connect, IN_HEAD)
    gateway.leap(HEAD_TIMEOUT * 0.6)
    for kind, sock in slow.items():
        sock.sendall(ASKED[kind][IN_HEAD:][:1])
    younger = begun(connect, IN_HEAD)
    gateway.leap(HEAD_TIMEOUT * 0.6)
    for sock in slow.values():
        assert "request's head" in ended_late(sock)
    for kind, sock in younger.items():
        sock.sendall(ASKED[kind][IN_HEAD:])
        assert read_until(sock, b"\r\n").startswith(b"HTTP/1.1 200 ")
    assert len(gateway.child.received) == len(younger)


def test_bodies_that_stall_are_a_408_and_those_that_go_on_are_not(gateway, connect):
    stalled, going = begun(connect, -FROM_END), begun(connect, -FROM_END)
    gateway.leap(READ_TIMEOUT * 0.6)
    for kind, sock in going.items():
        sock.sendall(ASKED[kind][-FROM_END:-1])
    gateway.leap(READ_TIMEOUT * 0.6)
    for sock in stalled.values():
        assert "request's body" in ended_late(sock)
    for kind, sock in going.items():
        sock.sendall(ASKED[kind][-1:])
        assert read_until(sock, b"\r\n").startswith(b"HTTP/1.1 200 ")
    assert len(gateway.child.received) == len(going)
