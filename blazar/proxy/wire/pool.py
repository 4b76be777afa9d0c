"""Connections to children: kept, lent last in first out, and looked at before they are lent again.

llama-server keeps one thread for each kept connection and closes idle ones after 5 s, so no more are kept than the
child has slots (and one for a question on the side), and none longer than 4 s.
"""

import _socket
import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from gevent import Timeout, socket

from blazar.control import short_socket_path
from blazar.transport import Endpoint

KEPT_IDLE = 4.0
"""Seconds an unused connection is kept."""
CONNECT_TIMEOUT = 5.0
"""Seconds a child may take to accept."""
SPARE = 1
"""Connections kept beyond the child's slots."""


class Connection:
    """One connection to a child."""

    def __init__(self, sock: socket.socket, child_id: str) -> None:
        self.child_id = child_id
        self.reused = False
        self.idle_since = 0.0
        self._sock = sock

    def send(self, data: bytes) -> None:
        self._sock.sendall(data)

    def receive(self) -> bytes:
        """What has come, at least a byte; empty when the child closed."""
        return self._sock.recv(65536)

    def interrupt(self) -> None:
        """Close under whoever waits in `receive`, who then gets no bytes."""
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.interrupt()
        self._sock.close()

    def is_quiet(self) -> bool:
        """Whether the connection is open with nothing to read, as an idle one must be."""
        # The bare socket type: gevent's own recv would wait.
        probe = _socket.socket(fileno=self._sock.fileno())
        try:
            probe.recv(1, _socket.MSG_PEEK | _socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            probe.detach()
        return False


class Pool:
    """Idle connections by child."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._idle: dict[str, list[Connection]] = {}

    def take(self, endpoint: Endpoint) -> Connection:
        """An idle connection that is still good, or a new one. Raises OSError when the child does not accept."""
        idle = self._idle.get(endpoint.child_id, [])
        while idle:
            connection = idle.pop()
            if self._clock() - connection.idle_since <= KEPT_IDLE and connection.is_quiet():
                connection.reused = True
                return connection
            connection.close()
        return Connection(_connect(endpoint.address), endpoint.child_id)

    def give_back(self, connection: Connection, endpoint: Endpoint) -> None:
        """Keep a connection whose last answer ended cleanly."""
        idle = self._idle.setdefault(endpoint.child_id, [])
        if len(idle) >= endpoint.slots + SPARE:
            connection.close()
            return
        connection.idle_since = self._clock()
        idle.append(connection)

    def forget(self, child_id: str) -> None:
        """Close everything idle of one child: it is gone, or one of its connections was found stale."""
        for connection in self._idle.pop(child_id, []):
            connection.close()

    def sweep(self, living: set[str]) -> None:
        """Close what has been idle for too long, and all of children that are not among `living`."""
        oldest = self._clock() - KEPT_IDLE
        for child_id, idle in list(self._idle.items()):
            kept = [connection for connection in idle if child_id in living and connection.idle_since >= oldest]
            for connection in idle:
                if connection not in kept:
                    connection.close()
            self._idle[child_id] = kept
            if not kept:
                del self._idle[child_id]

    def idle_count(self, child_id: str) -> int:
        return len(self._idle.get(child_id, []))


def _connect(address: tuple[str, int] | str) -> socket.socket:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        with Timeout(CONNECT_TIMEOUT, TimeoutError("the child does not accept connections")):
            if isinstance(address, str):
                with short_socket_path(Path(address)) as short:
                    sock.connect(short)
            else:
                sock.connect(address)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except BaseException:
        sock.close()
        raise
    return sock
