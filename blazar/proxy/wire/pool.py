"""Connections to children: kept, lent last in first out, and looked at before they are lent again.

llama-server keeps one thread for each kept connection and closes idle ones after 5 s, so no more are kept than the
child has slots (and one for a question on the side), and none longer than the child says (`Keep-Alive: timeout=5`),
less a second. Who says nothing, and closes earlier than in a minute, is seen to do so. llama-server also closes the
connection after a stream, though it promises to keep it, and whoever waits for the slot takes it before that is seen.
So once that has happened, the connections of this child's streams are not lent again, nor those of the children that
follow it: where models alternate, a request that had this bad luck with each of them would run out of attempts.
"""

import _socket
import contextlib
import errno
import math
import os
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from gevent import Timeout, get_hub, sleep, socket
from gevent.hub import Waiter

from blazar.control import short_socket_path
from blazar.proxy.wire.client import READ, READ_SIZE, WRITE
from blazar.proxy.wire.head import KEPT_IDLE, HeadReader
from blazar.transport import Endpoint, runs

CONNECT_TIMEOUT: Final = 5.0
"""Seconds a child may take to accept."""
BACKLOG_PAUSE: Final = 0.01
"""Seconds between tries at a Unix socket whose queue of connections is full, which cannot be watched."""
UNDER_WAY: Final = (errno.EINPROGRESS, errno.EALREADY, errno.EAGAIN)
"""What connect says while it has not come to an end."""
SOON: Final = 0.5
"""Seconds after a stream within which a child that closes the connection does so because of it."""
SEGMENT: Final = 1024
"""Bytes that leave in one segment wherever the child is."""
SMALL: Final = 479
"""Bytes for which Python has room at hand. Where the last piece was smaller so will be the next, nearly always."""
SPARE: Final = 1
"""Connections kept beyond the child's slots."""


class Connection:
    """One connection to a child. Its watcher stays armed, lent or idle, and calls `on_bytes` when there is news.

    Without an `on_bytes` nobody is there to read: news means that an idle connection has ended, which its pool is told.
    Of one that is lent the watcher is disarmed until somebody is there.
    """

    def __init__(self, sock: _socket.socket, child_id: str, heads: HeadReader | None = None,
                 on_end: "Callable[[Connection], None] | None" = None) -> None:
        """`on_end` is called when there is news on it while it is idle."""
        self.child_id = child_id
        self.heads = heads or HeadReader()
        self.reused = False
        self.idle = False
        self.idle_since = 0.0
        self.kept_until = 0.0
        """When it is too old to be lent again."""
        self.streamed = False
        """Its last answer was a stream."""
        self.deadline = math.inf
        """Until when the child has to answer, of CLOCK_MONOTONIC; Pool.sweep looks."""
        self.late = False
        """It did not."""
        self.interrupted = False
        self._hurries = False
        self._sock = sock
        self._recv: Callable[[int], bytes] = sock.recv
        self._size = READ_SIZE
        """Bytes that are read at a time."""
        self._on_end = on_end
        self._loop = get_hub().loop
        self._readable = self._loop.io(sock.fileno(), READ)
        self._armed = False
        self._waiter = Waiter()
        self._wake = partial(self._waiter.switch, None)
        self._unheard = self._hear_nobody

    def send(self, data: bytes) -> None:
        """Send all of `data`, waiting where there is no room. Raises OSError."""
        self._size = READ_SIZE  # an answer may come whole
        if len(data) > SEGMENT and not self._hurries:
            self._hurry()
        try:
            sent = self._sock.send(data)
        except BlockingIOError:
            sent = 0
        if sent < len(data):
            self._send_slowly(memoryview(data)[sent:])

    def receive(self) -> bytes:
        """Wait for bytes; none when the child closed, or somebody interrupts. Raises OSError."""
        waiter = self._waiter
        self.listen(self._wake)
        try:
            while True:
                waiter.get()
                waiter.clear()
                try:
                    return self.read()
                except BlockingIOError:
                    continue
        finally:
            self._readable.callback = self._unheard

    def read(self) -> bytes:
        """What has come by now, none when the child closed. Raises OSError: BlockingIOError when nothing has."""
        if self.interrupted:
            return b""
        data = self._recv(self._size)
        if len(data) < SMALL:
            self._size = SMALL
        elif self._size == SMALL:  # what has come must not cost a second turn of the loop, and a second piece
            self._size = READ_SIZE
            data += self._more()
        return data

    def _more(self) -> bytes:
        """What there is beside a small piece."""
        try:
            return self._recv(READ_SIZE)
        except OSError:  # which the next read meets again
            return b""

    def has_news(self) -> bool:
        """Whether something is there to be read: bytes, or the child's end."""
        try:
            self._sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        return True

    def listen(self, on_bytes: Callable[[], None] | None) -> None:
        """Have `on_bytes` called from the loop whenever there is something to `read`; with None, pause."""
        if self._armed:
            self._readable.callback = on_bytes or self._unheard
        elif on_bytes is not None:
            self._armed = True
            self._readable.start(on_bytes)

    def rest(self) -> None:
        """Have whoever was named be told of the next news, now that it is idle."""
        if not self._armed:
            self.listen(self._unheard)

    def interrupt(self) -> None:
        """Close under whoever waits for bytes, who then reads none. From anywhere."""
        self.interrupted = True
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._sock.fileno() < 0:
            return
        self.interrupted = True
        self._readable.stop()
        self._readable.close()
        self._sock.close()
        self._unheard = _nothing  # it does not refer to itself any more, and goes at once

    def _hear_nobody(self) -> None:
        """There is news, and nobody there to read it."""
        if self.idle and self._on_end is not None:
            self._on_end(self)
        else:
            self._armed = False
            self._readable.stop()

    def _hurry(self) -> None:
        """Have the last of several segments sent before the others are acknowledged."""
        self._hurries = True
        with contextlib.suppress(OSError):  # no TCP
            self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _send_slowly(self, rest: memoryview) -> None:
        hub = get_hub()
        writable = self._loop.io(self._sock.fileno(), WRITE)
        try:
            while rest:
                hub.wait(writable)
                with contextlib.suppress(BlockingIOError):
                    taken = self._sock.send(rest)
                    rest = rest[taken:]
        finally:
            writable.close()


class Pool:
    """Connections by child: those lent, and the idle ones, each of which leaves as soon as its child closes it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._idle: dict[str, list[Connection]] = {}
        self._heads: dict[str, HeadReader] = {}
        """What is known of the heads of each child."""
        self._lent: set[Connection] = set()
        self._closers: set[str] = set()
        """Places whose children close connections after a stream."""
        self.meanwhile: Callable[[], None] = _nothing
        """What may be done while a request that was just sent waits for its answer: models take longer than that."""

    def take(self, endpoint: Endpoint) -> Connection:
        """An idle connection, or a new one; `give_back` or `close` must follow.

        Raises OSError when the child does not accept.
        """
        idle = self._idle.get(endpoint.child_id)
        connection = self._recent(idle) if idle else None
        if connection is None:
            connection = self._new(endpoint)
        self._lent.add(connection)
        return connection

    def _recent(self, idle: list[Connection]) -> Connection | None:
        while idle:
            connection = idle.pop()
            connection.idle = False
            if self._clock() <= connection.kept_until:
                connection.reused = True
                return connection
            connection.close()
        return None

    def _new(self, endpoint: Endpoint) -> Connection:
        child_id = endpoint.child_id
        heads = self._heads.get(child_id)
        if heads is None:
            heads = self._heads[child_id] = HeadReader()
        return Connection(_connect(endpoint), child_id, heads, self._drop)

    def close(self, connection: Connection) -> None:
        """End a lent connection, which cannot be used again."""
        self._lent.discard(connection)
        connection.close()

    def give_back(self, connection: Connection, endpoint: Endpoint, streamed: bool = False,
                  kept: float = KEPT_IDLE) -> None:
        """Keep a lent connection whose last answer ended cleanly, for at most `kept` seconds."""
        idle = self._idle.get(endpoint.child_id)
        if idle is None:
            idle = self._idle[endpoint.child_id] = []
        connection.streamed = streamed
        if len(idle) >= endpoint.slots + SPARE or (streamed and _place(endpoint.child_id) in self._closers):
            self.close(connection)
            return
        self._lent.discard(connection)
        connection.idle, connection.idle_since = True, self._clock()
        connection.kept_until = connection.idle_since + kept
        connection.rest()
        idle.append(connection)

    def found_stale(self, stale: Connection) -> None:
        """Its child has closed it before it was lent: close everything idle of that child."""
        if stale.streamed and self._clock() - stale.idle_since < SOON:
            self._closers.add(_place(stale.child_id))
        for connection in self._idle.pop(stale.child_id, []):
            connection.close()

    def sweep(self, living: set[str]) -> None:
        """Close what has been idle for too long, and all of children that are not among `living`; interrupt those who
        wait for a child that is late."""
        now = self._clock()
        for child_id, idle in list(self._idle.items()):
            for connection in list(idle):
                if child_id not in living or now > connection.kept_until:
                    self._drop(connection)
            if not idle:
                del self._idle[child_id]
        self._heads = {child_id: heads for child_id, heads in self._heads.items() if child_id in living}
        for connection in self._lent:
            if connection.deadline < now:
                connection.late, connection.deadline = True, math.inf
                connection.interrupt()

    def _drop(self, connection: Connection) -> None:
        """An idle connection is old, or there is news on it: its child closed it, or speaks unasked."""
        self._idle[connection.child_id].remove(connection)
        connection.close()

    def idle_count(self, child_id: str) -> int:
        return len(self._idle.get(child_id, []))


def _nothing() -> None:
    """Nobody has asked for more."""


def _place(child_id: str) -> str:
    """That of a child, which its successors have too."""
    return child_id.partition("#")[0]


def _connect(endpoint: Endpoint) -> _socket.socket:
    """A connected socket of the bare type: gevent's own would wait."""
    address = endpoint.address
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    sock = _socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        if isinstance(address, str):
            with short_socket_path(Path(address)) as short:
                _complete(sock, short)
        else:
            _complete(sock, address)
        if not runs(endpoint.pid):  # another program may have taken its port, and would get the prompt
            raise ConnectionRefusedError("its process has ended")
    except BaseException:
        sock.close()
        raise
    return sock


def _complete(sock: _socket.socket, address: tuple[str, int] | str) -> None:
    """Connect, waiting only where it takes a while: on the same machine it is done by the second look."""
    state = sock.connect_ex(address)
    if state == errno.EINPROGRESS:
        state = sock.connect_ex(address)
    if state in UNDER_WAY:
        _await_connection(sock, address)
    elif state not in (0, errno.EISCONN):
        raise OSError(state, os.strerror(state))


def _await_connection(sock: _socket.socket, address: tuple[str, int] | str) -> None:
    hub = get_hub()
    writable = hub.loop.io(sock.fileno(), WRITE)
    try:
        with Timeout(CONNECT_TIMEOUT, TimeoutError("the child does not accept connections")):
            while (state := sock.connect_ex(address)) in UNDER_WAY:
                # A Unix socket whose queue is full says so at once, and has nothing to watch.
                sleep(BACKLOG_PAUSE) if state == errno.EAGAIN else hub.wait(writable)
    finally:
        writable.close()
    if state not in (0, errno.EISCONN):
        raise OSError(state, os.strerror(state))
