"""The relay in the event loop: every split of an answer, back-pressure, and random schedules of stalls and ends."""

import _socket
import gc
import os
import random
import struct

import gevent
import pytest
from gevent import socket

from blazar.proxy.wire.client import Client
from blazar.proxy.wire.flow import ChildClosed, Flow
from blazar.proxy.wire.framing import BadFraming, ChunkedFraming, chunk
from blazar.proxy.wire.pool import Connection
from tests.support.turning import turning

ANSWER = b"".join(map(chunk, (b"data: one\n\n", b"x" * 30, b"data: two\n\n"))) + b"0\r\nX-T: z\r\n\r\n"
OUTCOMES = (type(None), ChildClosed, BadFraming, BrokenPipeError, TimeoutError, ConnectionResetError)


class Course:
    """A flow between two socket pairs, in a greenlet; `result` is what it raised."""

    def __init__(self) -> None:
        self.child, inner = socket.socketpair()
        self.ours, self.reader = socket.socketpair()
        bare = _socket.socket(fileno=inner.detach())
        bare.setblocking(False)
        self.connection, self.client = Connection(bare, "m#1"), Client(self.ours)
        framing = ChunkedFraming()

        def take(data: bytes) -> bytes:
            framing.feed(data)
            return data

        self.client.watch(self.connection.interrupt)
        self.running = gevent.spawn(self._run, Flow(self.connection, framing, take, self.client))

    def _run(self, flow):
        try:
            flow.run()
        except Exception as error:
            return error
        finally:
            self.client.unwatch()

    def end(self) -> Exception | None:
        result = self.running.get(timeout=3)
        self.connection.close()
        self.client.close()
        for sock in (self.child, self.ours, self.reader):
            sock.close()
        return result


@pytest.mark.parametrize("cut", range(1, len(ANSWER)))
def test_every_split_of_an_answer_passes_unchanged(cut):
    course = Course()
    course.child.sendall(ANSWER[:cut])
    gevent.sleep(0.0005)
    course.child.sendall(ANSWER[cut:])
    got = b""
    while len(got) < len(ANSWER):
        got += course.reader.recv(1000)
    assert got == ANSWER and course.end() is None


@pytest.mark.parametrize("cut", range(0, len(ANSWER), 7))
def test_a_child_that_closes_anywhere(cut):
    course = Course()
    course.child.sendall(ANSWER[:cut])
    course.child.close()
    assert isinstance(course.end(), ChildClosed)


def test_bad_framing_ends_the_flow_and_is_told():
    course = Course()
    course.child.sendall(chunk(b"good") + b"nonsense\r\n")
    assert isinstance(course.end(), BadFraming)


def test_nothing_is_read_from_the_child_while_the_client_is_full():
    course = Course()
    course.child.setblocking(False)
    course.child._sock.setblocking(False)
    sent, piece = 0, chunk(b"y" * 60_000)
    quiet = 0
    while quiet < 20:
        try:
            sent += course.child._sock.send(piece[sent % len(piece):])
            quiet = 0
        except BlockingIOError:
            quiet += 1
        gevent.sleep(0.001)
    assert sent < 8 << 20
    got = 0
    while got < sent:
        got += len(course.reader.recv(1 << 20))
    rest = piece[sent % len(piece):] if sent % len(piece) else b""
    course.child.setblocking(True)
    course.child.sendall(rest + b"0\r\n\r\n")
    assert course.running.get(timeout=3) is None
    assert got == sent
    course.end()


def test_a_client_that_does_not_read_is_given_up_under_back_pressure():
    course = Course()
    course.client.write_timeout = 0.05
    writing = gevent.spawn(lambda: course.child.sendall(chunk(b"y" * 60_000) * 300))
    turning(lambda: course.client.deadline < float("inf"))
    gevent.get_hub().loop.run_callback(course.client.expire)
    assert isinstance(course.running.get(timeout=3), ChildClosed) and course.client.slow
    writing.kill()
    course.end()


def reset(sock) -> None:
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    sock.close()


def play(chance: random.Random) -> None:
    """One course with arrivals, stalls and ends at random."""
    course = Course()
    wire = b"".join(chunk(b"z" * chance.choice([1, 200, 20_000])) for _ in range(chance.randint(0, 8))) + b"0\r\n\r\n"
    wire = wire.replace(b"z", b"!", 1) if chance.random() < 0.5 else wire[:-2] + b"?\r\n"
    writing = gevent.spawn(write, course.child, wire, chance.choice([3, 500, 100_000]))
    for _ in range(chance.randint(0, 6)):
        act = chance.choice(["read", "wait", "wait", "interrupt", "leave", "half", "child"])
        if act == "read":
            with gevent.Timeout(0.002, False):
                course.reader.recv(5000)
        elif act == "wait":
            gevent.sleep(0.0005)
        elif act == "interrupt":
            course.connection.interrupt()
            break
        elif act in ("leave", "half"):
            reset(course.reader) if act == "leave" else course.reader.shutdown(socket.SHUT_WR)
            break
        else:
            writing.kill()
            reset(course.child)
            break
    writing.kill()
    course.child.close()
    assert isinstance(course.end(), OUTCOMES)


def write(sock, wire: bytes, size: int) -> None:
    try:
        for start in range(0, len(wire), size):
            sock.sendall(wire[start:start + size])
            gevent.sleep(0)
    except OSError:
        pass


def test_random_schedules_leave_nothing_behind():
    play(random.Random(0))
    gc.collect()
    before = len(os.listdir("/proc/self/fd")), greenlets()
    for seed in range(400):
        play(random.Random(seed))
    gevent.sleep(0.01)
    gc.collect()
    assert (len(os.listdir("/proc/self/fd")), greenlets()) == before


def greenlets() -> int:
    return sum(isinstance(one, gevent.Greenlet) and not one.dead for one in gc.get_objects())
