"""Drill: 9,000 idle connections and more, clients that send their heads and bodies as slowly as they can, bodies
without end. Others are served meanwhile, each costs little, and nothing is held when they have gone."""

import os
import resource
import socket
import threading
import time
from contextlib import ExitStack, contextmanager, suppress

import pytest

from tests.support.fake_supervisor import eventually
from tests.support.gateway_under_test import (
    ASK,
    GatewayUnderTest,
    is_error_of,
    post,
    read_all,
    read_until,
)
from tests.support.soak.watch import pss

IDLE = [pytest.param(900, marks=pytest.mark.slow), pytest.param(9000, marks=pytest.mark.debian)]
"""Idle connections. Each end has a crowd, one a large one."""
EACH = 16 << 10
"""Bytes that an idle connection may cost the worker."""
KEPT = 12 << 20
"""Bytes by which the worker may be larger after a second crowd than after the first."""
SECOND = 3.0
"""What somebody else may wait for an answer, on a busy machine."""
GIB = 1 << 30
MAX_BODY = 8 << 20
SLOW = 150
"""Clients that send as slowly as they can, of each kind."""
PIECES = 40_000


@contextmanager
def descriptors(most):
    """For this process and what it starts: with these the gateway has room for so many connections."""
    limit = 2 * (most + 64)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, max(limit, before[1])))
    except ValueError:
        pytest.skip("only the superuser can open so many files")
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before[0], max(limit, before[1])))


def held(gateway):
    return len(os.listdir(f"/proc/{gateway.supervisor.worker_pid()}/fd"))


def asked(gateway, dialect="openai"):
    """The seconds that a question takes, which is answered."""
    began = time.monotonic()
    assert gateway.ask(dialect).status == 200
    return time.monotonic() - began


@pytest.fixture
def gateway(tmp_path):
    with GatewayUnderTest(tmp_path) as gateway:
        asked(gateway)
        yield gateway


def connected(gateway, stack, before, count):
    """So many connections, all of which are accepted. Each hundred is waited for: what overflows the backlog of the
    kernel is tried again only after a second."""
    found = []
    for wanted in range(100, count + 1, 100):
        found += [stack.enter_context(gateway.connect()) for _ in range(100)]
        eventually(lambda wanted=wanted: held(gateway) >= before + wanted - 2, 30)
    return found


@pytest.mark.parametrize("count", IDLE)
def test_idle_connections(tmp_path, count):
    """Half of them have asked something before."""
    with descriptors(count), GatewayUnderTest(tmp_path) as gateway, ExitStack() as stack:
        asked(gateway)
        worker = gateway.supervisor.worker_pid()
        before, memory = held(gateway), pss(worker)
        idle = connected(gateway, stack, before, count)
        for sock in idle[::2]:
            sock.sendall(b"GET /api/version HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert b" 200 OK" in read_until(sock, b"}")
        assert (pss(worker) - memory) / count < EACH
        for dialect in ASK:
            answer = gateway.ask(dialect)
            assert answer.status == 503 and answer.headers["retry-after"] == "1"
            assert f"{count} connections are open" in (words := is_error_of(dialect, answer)) and "LimitNOFILE" in words
        assert gateway.raw(b"").startswith(b"HTTP/1.1 503 "), "who says nothing is told too"
        large = gateway.request("POST", ASK["openai"][0], b" " * (4 << 20))
        assert large.status == 503, "not a reset, whatever it still sends"
        idle.pop().close()
        eventually(lambda: gateway.ask("openai").status == 200, 20)
        for sock in idle:
            sock.close()
        eventually(lambda: held(gateway) <= before + 2, 30)
        assert asked(gateway) < SECOND
        rest = pss(worker)
        again = connected(gateway, stack, before, count)
        for sock in again:
            sock.close()
        eventually(lambda: held(gateway) <= before + 2, 30)
        assert asked(gateway) < SECOND
        assert pss(worker) - rest < KEPT, "a second crowd lives in the memory of the first"
        assert "Traceback" not in gateway.supervisor.log()


# -- slow ones ---------------------------------------------------------------------------------------------


def drip(sockets, data, until):
    """Send each of them the next byte of `data`, over and over again, as long as they take it."""
    place = 0
    while sockets and not until.wait(0.05):
        for sock in list(sockets):
            try:
                sock.sendall(data[place % len(data):][:1])
            except OSError:
                sockets.remove(sock)
        place += 1


@pytest.mark.debian
def test_slow_heads_end_with_a_408_and_slow_bodies_hold_up_nobody(gateway):
    """HEAD_TIMEOUT is for the whole head, so a byte now and then does not prolong it."""
    before, over = held(gateway), threading.Event()
    with ExitStack() as stack:
        heads = [stack.enter_context(gateway.connect()) for _ in range(SLOW)]
        bodies = [stack.enter_context(gateway.connect()) for _ in range(SLOW)]
        path, _ = ASK["openai"]
        for sock in heads:
            sock.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\n".encode())
        for sock in bodies:
            sock.sendall(post(path, bytes(10_000))[:-10_000])
        asked_before = len(gateway.child.received)
        threads = [threading.Thread(target=drip, args=(list(sockets), data, over), daemon=True)
                   for sockets, data in ((heads, b"X: y\r\n"), (bodies, b" "))]
        for thread in threads:
            thread.start()
        try:
            began, questions = time.monotonic(), 0
            while time.monotonic() - began < 20:
                assert asked(gateway) < SECOND
                questions += 1
                time.sleep(0.2)
            assert len(gateway.child.received) == asked_before + questions, "none of them has come to a child"
            for sock in heads:
                assert read_until(sock, b"\r\n").startswith(b"HTTP/1.1 408 ")
        finally:
            over.set()
            for thread in threads:
                thread.join()
    eventually(lambda: held(gateway) <= before + 1, 20)
    assert "Traceback" not in gateway.supervisor.log()


@pytest.mark.debian
def test_a_body_in_tiny_pieces_takes_no_more_memory_than_its_bytes(gateway):
    worker = gateway.supervisor.worker_pid()
    with gateway.connect() as sock:
        sock.sendall(post(ASK["openai"][0], bytes(2 * PIECES + 2))[:-2 * PIECES - 2])
        memory = pss(worker)
        for _ in range(PIECES):
            sock.sendall(b"  ")
            time.sleep(0.00005)  # so that each is read by itself
        assert pss(worker) - memory < 1 << 20
    assert asked(gateway) < SECOND


# -- large ones ----------------------------------------------------------------------------------------------


def peak(gateway):
    """Bytes that the worker had at most since the last look."""
    folder = f"/proc/{gateway.supervisor.worker_pid()}"
    with open(f"{folder}/status") as file:
        most = next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))
    with open(f"{folder}/clear_refs", "w") as file:
        file.write("5")
    return most


def pour(sock, piece):
    """Send `piece` again and again until something is answered, or the other side goes: the answer, and how many bytes
    went before it."""
    sent, answer = 0, []
    reader = threading.Thread(target=lambda: answer.append(sock.recv(65536)))
    reader.start()
    with suppress(OSError):
        while not answer and sent < GIB:
            sock.sendall(piece)
            sent += len(piece)
    reader.join()
    sock.shutdown(socket.SHUT_WR)
    return answer[0] + read_all(sock), sent


CHUNK = b"10000\r\n" + b" " * 0x10000 + b"\r\n"
GIANTS = {"announced": (f"Content-Length: {GIB}", b" " * 0x10000), "chunked": ("Transfer-Encoding: chunked", CHUNK)}


@pytest.mark.parametrize("kind", GIANTS)
def test_a_body_of_a_gigabyte_is_a_413_long_before_its_end(tmp_path, kind):
    line, piece = GIANTS[kind]
    with GatewayUnderTest(tmp_path, {"max_body_mb": MAX_BODY >> 20}) as gateway:
        asked(gateway)
        peak(gateway)
        memory = peak(gateway)
        for path in (*(path for path, _ in ASK.values()), "/api/create", "/v1/embeddings", "/v1/messages/batches"):
            with gateway.connect() as sock:
                sock.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{line}\r\n\r\n".encode())
                told, sent = pour(sock, piece)
                head, _, body = told.partition(b"\r\n\r\n")
                assert head.startswith(b"HTTP/1.1 413 ") and b"max_body_mb" in body, (path, told)
                assert sent < 8 * MAX_BODY, path
        assert peak(gateway) - memory < 4 * MAX_BODY
        assert asked(gateway) < SECOND
        assert len(gateway.child.received) == 2
