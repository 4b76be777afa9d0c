"""Watches a client's socket while its answer is made, and tells at once when the client has gone.

A client that has closed its sending side counts as gone: it cannot be told from one that closed both.
"""

import _socket
import contextlib
from collections.abc import Callable

from gevent import get_hub

GLANCE = 0.02
"""Seconds between looks at a connection on which more has come, so that its end cannot be seen by reading."""
ESTABLISHED = 1
"""Linux: the first byte of TCP_INFO while both sides are open."""


class Watch:
    """Calls `on_gone` once, from the event loop. `stop` must be called in the end."""

    def __init__(self, descriptor: int, on_gone: Callable[[], None]) -> None:
        self._on_gone = on_gone
        self._probe = _socket.socket(fileno=descriptor)  # the bare type: gevent's own would wait
        loop = get_hub().loop
        self._readable = loop.io(descriptor, 1)
        self._timer = loop.timer(GLANCE, repeat=GLANCE)
        self._readable.start(self._look)

    def stop(self) -> None:
        for watcher in (self._readable, self._timer):
            watcher.stop()
            watcher.close()
        self._probe.detach()

    def _look(self) -> None:
        try:
            ahead = self._probe.recv(1, _socket.MSG_PEEK | _socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            ahead = b""
        self._readable.stop()
        if ahead:
            self._timer.start(self._glance)
        else:
            self._tell()

    def _glance(self) -> None:
        with contextlib.suppress(OSError):  # not a TCP socket
            if self._probe.getsockopt(_socket.IPPROTO_TCP, _socket.TCP_INFO, 1)[0] != ESTABLISHED:
                self._timer.stop()
                self._tell()

    def _tell(self) -> None:
        with contextlib.suppress(OSError):
            self._probe.shutdown(_socket.SHUT_RDWR)  # wakes who waits for the client to read
        self._on_gone()
