"""`Client`: a client's connection, read and written from the event loop.

One watcher stays armed for as long as the connection lives, so a request that needs nothing unusual costs no call to
the kernel but one to read and one to write. What it means that there is something to read depends on who is there:

- somebody waits in `recv` or `begin`: what has come is read, and handed over;
- an answer is made (`watch`): the client has closed, or already sends its next request, which stays where it is;
- nobody: the watcher is disarmed until somebody is.

A client that has closed its sending side counts as gone: it cannot be told from one that closed both.

Callbacks of the loop only move bytes, and wake. They take no lock and write no log, and `OSError` is all that can
happen in them.
"""

import _socket
import contextlib
import math
import struct
import time
from collections.abc import Callable
from typing import Any, Final

from gevent import get_hub
from gevent.hub import Waiter

from blazar.proxy.wire.turns import Turns

READ, WRITE = 1, 2
READ_SIZE: Final = 65536
READ_TIMEOUT: Final = 30.0
"""Seconds a client may pause within its body."""
GLANCE: Final = 0.02
"""Seconds between looks at a connection on which more has come, so that its end cannot be seen by reading."""
ESTABLISHED: Final = 1
"""Linux: the first byte of TCP_INFO while both sides are open."""


class AnyClient:
    """What a sink needs of a client's connection."""

    def __init__(self, sock: Any) -> None:
        self.sock = sock
        self.write_timeout: float | None = None
        """Seconds for which a client may take nothing of what is sent."""
        self.slow = False
        """It was given up because it did not read."""

    def send(self, data: bytes) -> None:
        raise NotImplementedError

    def recv(self, size: int, within: float | None) -> bytes:
        raise NotImplementedError

    def shut(self, how: int) -> None:
        raise NotImplementedError

    def reset_on_close(self) -> None:
        raise NotImplementedError

    def watch(self, on_gone: Callable[[], None]) -> None:
        raise NotImplementedError

    def unwatch(self) -> None:
        raise NotImplementedError


class Client(AnyClient):
    """Uses a socket, which stays its owner's to close; `close` must be called before that.

    One greenlet at a time reads or writes. Whoever owns clients calls `expire` on those whose `deadline` has passed,
    about once a second.
    """

    def __init__(self, sock: Any) -> None:
        super().__init__(sock)
        self.deadline = math.inf
        """When `expire` is due, of CLOCK_MONOTONIC."""
        self.busy = False
        """A request of its is being answered, so a stop lets it be."""
        self._bare = _bare(sock)
        self._loop = get_hub().loop
        self._readable = self._loop.io(self._bare.fileno(), READ)
        self._armed = False
        self._writable: Any = None
        self._glances: Any = None
        self._waiter: Waiter | None = None
        self._reading = 0
        """The waiter waits for so many bytes at most; 0 when it waits for room to write."""
        self._turns: Turns | None = None
        """Who says when the reader of a request's beginning is woken."""
        self._on_gone: Callable[[], None] | None = None
        self._on_room: Callable[[], None] | None = None
        self._unread = b""
        self._is_new = True
        """Nothing was read of it yet."""
        self._pending = bytearray()
        """What could not be sent yet."""
        self._lost = False
        self._arm()

    def close(self) -> None:
        """Take the watchers away."""
        for watcher in (self._readable, self._writable, self._glances):
            if watcher is not None:
                watcher.stop()
                watcher.close()
        if self._bare is not self.sock:
            self._bare.detach()

    def greet(self, within: float) -> None:
        """Do what comes before the first request, within so many seconds: here nothing. Raises OSError."""

    # -- reading -------------------------------------------------------------------------------------

    def recv(self, size: int = READ_SIZE, within: float | None = READ_TIMEOUT) -> bytes:
        """At least a byte, or none when the client has closed. Raises TimeoutError after `within` seconds."""
        if self._unread:
            data, self._unread = self._unread[:size], self._unread[size:]
            return data
        self._turns = None
        return self._receive(size, within)

    def begin(self, within: float | None, turns: Turns) -> bytes:
        """As `recv`, for the first bytes of a request, whose reader waits for its turn."""
        if self._unread:
            data, self._unread = self._unread, b""
            return data
        self._turns = turns
        if self._is_new:
            self._is_new = False
            data = self._glimpse()
            if data:
                return data
        return self._receive(READ_SIZE, within)

    @property
    def ahead(self) -> bool:
        """Something is there that can be read without waiting."""
        return bool(self._unread)

    def unread(self, data: bytes) -> None:
        """Have `data` read once more."""
        self._unread = data + self._unread

    # -- writing -------------------------------------------------------------------------------------

    def send(self, data: bytes) -> None:
        """Send all of `data`, after what was pushed. Raises OSError: TimeoutError when the client takes nothing."""
        room = self.push(data)
        while not room:
            self._wait()
            self._check()
            room = not self._pending

    def push(self, data: bytes) -> bool:
        """Send what can be sent at once, and the rest as there is room; whether there is none left.

        For callbacks of the loop too. Raises OSError when the client is gone.
        """
        if self._lost:
            self._check()
        if self._pending or not data:
            self._pending += data
            return not self._pending
        try:
            sent = self._bare.send(data)
        except BlockingIOError:
            sent = 0
        if sent == len(data):
            return True
        self._pending += memoryview(data)[sent:]
        self._set_deadline(self.write_timeout)
        if self._writable is None:
            self._writable = self._loop.io(self._bare.fileno(), WRITE)
        self._writable.start(self._flush)
        return False

    @property
    def pending(self) -> bool:
        """Something that was pushed is not sent yet."""
        return bool(self._pending)

    def on_room(self, call: Callable[[], None] | None) -> None:
        """Have `call` called from the loop once all that was pushed is sent, or will never be."""
        self._on_room = call

    def shut(self, how: int) -> None:
        with contextlib.suppress(OSError):
            self._bare.shutdown(how)

    def reset_on_close(self) -> None:
        """Let the client see a reset when its socket is closed."""
        with contextlib.suppress(OSError):
            self._bare.setsockopt(_socket.SOL_SOCKET, _socket.SO_LINGER, struct.pack("ii", 1, 0))

    # -- watching ------------------------------------------------------------------------------------

    def watch(self, on_gone: Callable[[], None]) -> None:
        """From now on, call `on_gone` from the loop, once, when the client is gone; `unwatch` must follow."""
        self._on_gone = on_gone
        if not self._armed:
            self._arm()

    def unwatch(self) -> None:
        self._on_gone = None
        if self._glances is not None:
            self._glances.stop()

    def expire(self) -> None:
        """The deadline has passed: wake the reader, or give up the client that does not read. From the loop only."""
        self.deadline = math.inf
        if self._pending:
            self.slow = True
            self._lose()
        elif self._waiter is not None:
            self._waiter.switch(TimeoutError("the client does not send"))

    # -- from the loop -------------------------------------------------------------------------------

    def _on_readable(self) -> None:
        if self._reading:
            self._read()
        elif self._on_gone is not None:
            self._look()
        else:
            self._disarm()

    def _read(self) -> None:
        try:
            found: bytes | OSError = self._bare.recv(self._reading)
        except BlockingIOError:
            return
        except OSError as error:
            found = error
        self._reading = 0
        self.deadline = math.inf
        assert self._waiter is not None
        if self._turns is None or not found:
            self._waiter.switch(found)
        else:
            self._turns.begin(self._waiter.switch, found)

    def _look(self) -> None:
        try:
            ahead = self._bare.recv(1, _socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            ahead = b""
        self._disarm()
        if not ahead:
            self._lose()
            return
        if self._glances is None:
            self._glances = self._loop.timer(GLANCE, repeat=GLANCE)
        self._glances.start(self._glance)

    def _glance(self) -> None:
        with contextlib.suppress(OSError):  # not a TCP socket
            if self._bare.getsockopt(_socket.IPPROTO_TCP, _socket.TCP_INFO, 1)[0] != ESTABLISHED:
                self._glances.stop()
                self._lose()

    def _flush(self) -> None:
        try:
            sent = self._bare.send(self._pending)
        except BlockingIOError:
            return
        except OSError:
            self._lose()
            return
        del self._pending[:sent]
        if self._pending:
            self._set_deadline(self.write_timeout)
        else:
            self._writable.stop()
            self.deadline = math.inf
            self._wake()

    def _lose(self) -> None:
        """The client is gone or given up: nothing can be sent any more, and whoever needs to know is told, once."""
        self._lost = True
        self._pending.clear()
        self.deadline = math.inf
        if self._writable is not None:
            self._writable.stop()
        self.shut(_socket.SHUT_RDWR)
        tell, self._on_gone = self._on_gone, None
        if tell is not None:
            tell()
        if not self._reading:
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None:
            self._waiter.switch(True)
        elif self._on_room is not None:
            self._on_room()

    # ------------------------------------------------------------------------------------------------

    def _receive(self, size: int, within: float | None) -> bytes:
        if not self._armed:
            self._arm()
        self._reading = size
        if within is not None:
            self.deadline = time.monotonic() + within
        try:
            found = self._wait()
        finally:
            self._reading = 0
            self.deadline = math.inf
        if isinstance(found, OSError):
            raise found
        return found

    def _glimpse(self) -> bytes:
        """What is there already: who has just connected has often sent its request, too."""
        try:
            return self._bare.recv(READ_SIZE)
        except OSError:  # which is met again by who waits
            return b""

    def _wait(self) -> Any:
        """Until the loop wakes us; what it gives."""
        self._waiter = waiter = Waiter()
        try:
            return waiter.get()
        finally:
            self._waiter = None

    def _set_deadline(self, seconds: float | None) -> None:
        self.deadline = math.inf if seconds is None else time.monotonic() + seconds

    def _check(self) -> None:
        if self.slow:
            raise TimeoutError("the client does not read")
        if self._lost:
            raise BrokenPipeError("the client is gone")

    def _arm(self) -> None:
        self._armed = True
        self._readable.start(self._on_readable)

    def _disarm(self) -> None:
        self._armed = False
        self._readable.stop()


def _bare(sock: Any) -> _socket.socket:
    """One that does not wait, as gevent's own would."""
    return sock if type(sock) is _socket.socket else _socket.socket(sock.family, sock.type, sock.proto, sock.fileno())
