"""What a client that stops sending is told, and when (FC-23): the clock is moved, and the worker's own sweep looks."""

import time

import gevent
import pytest

from blazar.proxy.serve import KEPT_ALIVE
from blazar.proxy.wire.client import READ_TIMEOUT
from blazar.proxy.wire.conversation import HEAD_TIMEOUT
from tests.support.corpus import Reader
from tests.support.gateway_under_test import ASK, Answer, is_error_of
from tests.support.one_loop import LoopChild, OneLoop, settled
from tests.support.scripted_child import json_answer

BODIES = {
    "length": b"Content-Length: 10\r\n\r\n{\"mo", "chunks": b"Transfer-Encoding: chunked\r\n\r\n4\r\n{\"mo\r\n",
    "in a chunk": b"Transfer-Encoding: chunked\r\n\r\n4\r\n{\"m"}
VERSION = b"GET /api/version HTTP/1.1\r\nHost: localhost\r\n\r\n"
LATE = 0.2
"""Seconds after which a slow client sends one more byte."""


@pytest.fixture
def loop(tmp_path):
    child = LoopChild(lambda sock, body: sock.sendall(json_answer(b"{}")) is None)
    loop = OneLoop(tmp_path, child.address)
    yield loop
    loop.close()
    child.stop()
    assert loop.worker.faults == child.received == []


def waits(loop) -> float:
    """The seconds until the one client there is has waited for too long."""
    settled()
    client, = loop.worker.here()
    return client.deadline - time.monotonic()


def pass_by(loop) -> None:
    """Let them pass."""
    client, = loop.worker.here()
    client.deadline = time.monotonic() - 0.001
    loop.worker.sweep()


def refused(reader, dialect) -> str:
    told = reader.answer()
    assert told.status == 408 and told.fields["connection"] == "close"
    assert reader.answer() is None
    return is_error_of(dialect, Answer(told.status, told.fields, told.body))


@pytest.mark.parametrize("dialect", ASK)
@pytest.mark.parametrize("body", BODIES)
def test_a_body_that_stalls_is_a_408_and_holds_up_nobody(loop, dialect, body):
    with loop.connect() as sock:
        sock.sendall(f"POST {ASK[dialect][0]} HTTP/1.1\r\nHost: localhost\r\n".encode() + BODIES[body])
        assert READ_TIMEOUT - 5 < waits(loop) <= READ_TIMEOUT
        with loop.connect() as other:
            other.sendall(VERSION)
            assert Reader(other).answer().status == 200
        settled()
        loop.worker.sweep()
        assert loop.worker.here(), "it still has time"
        pass_by(loop)
        assert "body" in refused(Reader(sock), dialect)


@pytest.mark.parametrize("before", [b"", VERSION], ids=["first", "second"])
def test_a_byte_now_and_then_does_not_prolong_a_head(loop, before):
    with loop.connect() as sock:
        reader = Reader(sock)
        if before:
            sock.sendall(before)
            assert reader.answer().status == 200
        sock.sendall(b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nX: y")
        first = waits(loop)
        assert HEAD_TIMEOUT - 5 < first <= HEAD_TIMEOUT
        gevent.sleep(LATE)
        sock.sendall(b"z")
        assert waits(loop) <= first - LATE * 0.9
        pass_by(loop)
        assert "head" in refused(reader, "ollama")


@pytest.mark.parametrize("before", [b"", VERSION], ids=["new", "used"])
def test_an_idle_connection_is_closed_without_a_word(loop, before):
    with loop.connect() as sock:
        reader = Reader(sock)
        if before:
            sock.sendall(before)
            assert reader.answer().status == 200
        assert KEPT_ALIVE - 5 < waits(loop) <= KEPT_ALIVE
        pass_by(loop)
        assert reader.answer() is None and not loop.worker.here()


def test_of_many_idle_connections_those_go_whose_time_has_come(loop):
    socks = [loop.connect() for _ in range(100)]
    for sock in socks[::2]:
        sock.sendall(VERSION)
        assert Reader(sock).answer().status == 200
    settled()
    clients = loop.worker.here()
    assert len(clients) == len(socks)
    for client in clients[:30]:
        client.deadline = 0.0
    loop.worker.sweep()
    settled()
    assert len(loop.worker.here()) == 70 and not set(clients[:30]) & set(loop.worker.here())
    for sock in socks:
        sock.close()
    settled()
    assert loop.worker.here() == []
