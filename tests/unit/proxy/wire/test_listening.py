"""Connections are taken a few in a turn, never more than allowed; greenlets serve one after the other."""

import _socket
import errno
import logging
import os

import gevent
import pytest
from gevent import getcurrent, socket
from gevent.event import Event
from gevent.hub import Waiter

from blazar.proxy.greens import Interrupter
from blazar.proxy.wire import listening
from blazar.proxy.wire.client import READ
from blazar.proxy.wire.listening import KEPT, Listening
from tests.support.turning import turning


class Hall:
    """A listener whose connections wait until they are let go."""

    def __init__(self, most: int = 1000) -> None:
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(512)
        self.address = listener.getsockname()
        self.here: list = []
        """The socket, the address and the greenlet of each that has come."""
        self.killed = 0
        self.go = Event()
        self.server = Listening(listener, self._handle, most)
        self.server.start()

    def _handle(self, sock, address) -> None:
        self.here.append((sock, address, getcurrent()))
        try:
            self.go.wait()
        except gevent.GreenletExit:
            self.killed += 1
            raise
        finally:
            sock.close()

    def come(self, count: int) -> list:
        return [socket.create_connection(self.address) for _ in range(count)]

    def let_go(self) -> None:
        go, self.go = self.go, Event()
        go.set()


@pytest.fixture
def hall(request):
    made = Hall(*getattr(request, "param", ()))
    yield made
    made.server.stop(0.0)


def test_a_connection_does_not_wait_and_its_other_end_is_told(hall):
    with socket.create_connection(hall.address) as client:
        turning(lambda: hall.here)
        sock, address, _ = hall.here[0]
        assert address == client.getsockname()
        assert sock.gettimeout() == 0.0
        with pytest.raises(BlockingIOError):
            sock.recv(1)
        client.send(b"x")
        assert sock.recv(1) == b"x"


def test_they_come_in_their_order(hall):
    clients = hall.come(50)
    turning(lambda: len(hall.here) == 50)
    assert [address for _, address, _ in hall.here] == [client.getsockname() for client in clients]


def test_a_greenlet_takes_the_next_connection(hall):
    for number in range(1, 4):
        hall.come(1)
        turning(lambda number=number: len(hall.here) == number)
        hall.let_go()
    assert len({id(greenlet) for _, _, greenlet in hall.here}) == 1


def test_no_more_of_them_rest_than_are_kept(hall):
    clients = hall.come(KEPT + 20)
    turning(lambda: len(hall.here) == KEPT + 20)
    hall.let_go()
    turning(lambda: sum(not greenlet.dead for _, _, greenlet in hall.here) == KEPT)
    assert clients


@pytest.mark.parametrize("hall", [(3,)], indirect=True)
def test_those_beyond_the_limit_wait_until_one_has_ended(hall):
    clients = hall.come(5)
    turning(lambda: len(hall.here) == 3)
    gevent.sleep(0.02)
    assert len(hall.here) == 3
    hall.let_go()
    turning(lambda: len(hall.here) == 5)
    assert [address for _, address, _ in hall.here] == [client.getsockname() for client in clients]


def test_a_greenlet_that_has_died_at_rest_takes_no_connection(hall):
    hall.come(1)
    turning(lambda: hall.here)
    hall.let_go()
    turning(lambda: hall.server._resting)
    gevent.get_hub().loop.run_callback(hall.server._resting[0].throw, gevent.GreenletExit)
    turning(lambda: hall.server._resting[0].dead)
    hall.come(1)
    turning(lambda: len(hall.here) == 2)


def test_what_interrupts_one_connection_too_late_does_not_come_to_the_next():
    """Both in one turn of the loop: the wait of the first ends by itself, and its greenlet has the second by then."""
    ended, served = [], []

    def handle(sock, _):
        waiter = Waiter()
        with Interrupter(ConnectionAbortedError) as interrupter:
            waiters.append((waiter, interrupter))
            ended.append(waiter.get())
        served.append(getcurrent())

    def lose():  # as a client does that is lost
        waiter, interrupter = waiters[0]
        interrupter()
        waiter.switch("done")

    waiters: list = []
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(8)
    server = Listening(listener, handle, 8)
    server.start()
    near, far = socket.socketpair()
    lost = gevent.get_hub().loop.io(near.fileno(), READ)
    try:
        clients = [socket.create_connection(listener.getsockname())]
        turning(lambda: waiters)
        lost.start(lambda: (lost.stop(), lose()))
        far.send(b"x")
        plain = _socket.socket()
        plain.connect(listener.getsockname())
        turning(lambda: len(waiters) == 2)
        gevent.sleep(0)
        assert served and ended == ["done"]
        gevent.get_hub().loop.run_callback(waiters[1][0].switch, "done, too")
        turning(lambda: len(served) == 2)
        assert ended == ["done", "done, too"] and served[0] is served[1]
        assert clients and plain.fileno() > 0
    finally:
        lost.close()
        server.stop(0.0)


def test_a_connection_is_closed_whatever_becomes_of_it(hall, capsys):
    def fail(sock, address):
        kept.append(sock)
        raise MemoryError

    kept: list = []

    hall.server._handle = fail
    client, = hall.come(1)
    client.settimeout(5)
    assert client.recv(1) == b""
    assert "MemoryError" in capsys.readouterr().err


def test_a_stop_waits_and_then_kills(hall):
    clients = hall.come(2)
    turning(lambda: len(hall.here) == 2)
    hall.server.stop(0.05)
    assert hall.killed == 2 and all(sock.fileno() < 0 for sock, _, _ in hall.here)
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(hall.address)
    assert clients


def test_a_lack_of_descriptors_is_told_once_and_ends(hall, monkeypatch, caplog):
    class Starved:
        def _accept(self):
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

        def detach(self):
            bare.detach()

    bare = hall.server._bare
    monkeypatch.setattr(listening, "FIRST_PAUSE", 0.001)
    hall.server._bare = Starved()
    with caplog.at_level(logging.WARNING):
        clients = hall.come(2)
        gevent.sleep(0.1)
        assert not hall.here
        hall.server._bare = bare
        turning(lambda: len(hall.here) == 2)
    assert caplog.messages == ["no connection can be accepted: Too many open files; they wait until one can be"]
    assert clients
