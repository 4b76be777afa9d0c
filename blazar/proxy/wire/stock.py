"""`StockClient`: a client's connection under a gunicorn that is not ours, which reads it and keeps it by itself."""

import contextlib
import struct
from collections.abc import Callable
from typing import Any, Final

from gevent import Timeout, socket

from blazar.proxy.wire.client import AnyClient, Client

SLICE: Final = 65536
"""Bytes that a client must take within the write timeout."""


class StockClient(AnyClient):
    """What a sink needs of a connection, through gevent's own calls, which wait."""

    def __init__(self, sock: Any) -> None:
        super().__init__(sock)
        self._watch: Client | None = None

    def send(self, data: bytes) -> None:
        try:
            for start in range(0, len(data), SLICE):
                with Timeout(self.write_timeout, TimeoutError("the client does not read")):
                    self.sock.sendall(data[start:start + SLICE])
        except TimeoutError:
            self.slow = True
            raise

    def recv(self, size: int, within: float | None) -> bytes:
        with Timeout(within, TimeoutError("the client does not send")):
            return self.sock.recv(size)

    def shut(self, how: int) -> None:
        with contextlib.suppress(OSError):
            self.sock.shutdown(how)

    def reset_on_close(self) -> None:
        with contextlib.suppress(OSError):
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def watch(self, on_gone: Callable[[], None]) -> None:
        self._watch = Client(self.sock)
        self._watch.watch(on_gone)

    def unwatch(self) -> None:
        if self._watch is not None:
            self._watch.close()
            self._watch = None
