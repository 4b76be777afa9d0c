"""`Listening`: takes the connections that come to a listener, a few in a turn of the event loop, each in a greenlet.

gevent's own server makes of each a socket with two watchers and a member of a pool, which together cost more than the
rest of a connection's beginning. And a greenlet whose connection has ended takes the next one: for a new one Python
asks the kernel for memory, and gives it back in the end.

A lack of descriptors makes one line in the log, not a traceback a second. Whoever connects meanwhile waits in the
backlog of the kernel, and is looked for again, once a second at last.
"""

import _socket
import logging
import time
from collections.abc import Callable
from typing import Any, Final

import gevent
from gevent.hub import RawGreenlet

from blazar.proxy.wire.client import READ
from blazar.proxy.wire.turns import MOST

FIRST_PAUSE: Final = 0.01
LAST_PAUSE: Final = 1.0
"""Seconds until the next try, when none can be accepted: twice as many each time."""
KEPT: Final = 64
"""Greenlets that wait for a next connection."""
GLANCE: Final = 0.02
"""Seconds between looks at whether the last one has ended."""
LAST: Final = -2
"""libev's lowest priority: what else a turn of the loop brings comes before new connections."""

log = logging.getLogger(__name__)


class Listening:
    """It closes the listener in the end, and each connection when `handle` is done with it."""

    def __init__(self, listener: Any, handle: Callable[[_socket.socket, Any], None], most: int) -> None:
        """`handle` is called with a socket that does not wait, and the address of its other end; `most` of them are
        handled at a time."""
        self._listener = listener
        self._family, self._type, self._proto = listener.family, listener.type, listener.proto
        self._bare: Any = _socket.socket(self._family, self._type, self._proto, listener.fileno())
        self._bare.setblocking(False)
        self._handle = handle
        self._most = most
        self._hub: Any = gevent.get_hub()
        self._acceptable = self._hub.loop.io(self._bare.fileno(), READ)
        self._acceptable.priority = LAST
        self._again: Any = None
        self._pause = FIRST_PAUSE
        self._warned = False
        self._full = False
        self._closed = False
        self._handling: set[Any] = set()
        """The greenlets that have a connection."""
        self._resting: list[Any] = []
        """Those that wait for one."""

    def start(self) -> None:
        self._acceptable.start(self._accept)

    def close(self) -> None:
        """Accept no more."""
        if self._closed:
            return
        self._closed = True
        for watcher in (self._acceptable, self._again):
            if watcher is not None:
                watcher.stop()
                watcher.close()
        self._bare.detach()
        self._listener.close()

    def stop(self, within: float) -> None:
        """The same, and wait for so many seconds until all connections have ended; those that have not are killed."""
        self.close()
        self._wait(within)
        for one in list(self._handling):
            gevent.kill(one)
        self._wait(within)

    def _wait(self, within: float) -> None:
        until = time.monotonic() + within
        while self._handling and time.monotonic() < until:
            gevent.sleep(GLANCE)

    # -- from the loop -------------------------------------------------------------------------------

    def _accept(self) -> None:
        for _ in range(MOST):  # new connections wait for their turn too
            if self._closed:
                return
            if len(self._handling) >= self._most:
                self._full = True
                self._acceptable.stop()
                return
            try:
                descriptor, address = self._bare._accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError as error:
                self._rest(error)
                return
            self._pause, self._warned = FIRST_PAUSE, False
            sock = _socket.socket(self._family, self._type, self._proto, descriptor)
            sock.setblocking(False)
            taker = self._resting.pop() if self._resting else RawGreenlet(self._take, self._hub)
            if taker.dead:  # something that came late has ended it
                taker = RawGreenlet(self._take, self._hub)
            taker.switch((sock, address))

    def _rest(self, error: OSError) -> None:
        """Nothing may wait here, so a greenlet writes the log."""
        if not self._warned:
            self._warned = True
            gevent.spawn(log.warning, "no connection can be accepted: %s; they wait until one can be", error.strerror)
        self._acceptable.stop()
        if self._again is not None:
            self._again.close()
        self._again = self._hub.loop.timer(self._pause)
        self._again.start(self.start)
        self._pause = min(2 * self._pause, LAST_PAUSE)

    # -- in a greenlet of its own --------------------------------------------------------------------

    def _take(self, taken: tuple[_socket.socket, Any]) -> None:
        """Handle one connection after the other."""
        this = gevent.getcurrent()
        while True:
            self._handling.add(this)
            try:
                self._handle(*taken)
            finally:
                taken[0].close()
                self._handling.discard(this)
                if self._full and not self._closed:
                    self._full = False
                    self.start()
            if self._closed or len(self._resting) >= KEPT:
                return
            self._resting.append(this)
            taken = self._hub.switch()
