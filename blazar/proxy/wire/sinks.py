"""Where answers go: `SocketSink` writes to the client's socket.

gunicorn leaves an answered connection alone (ALREADY_HANDLED), its own keep-alive decision included, so the sink
writes `Connection:` itself and shuts the socket when it must not be used again: the client speaks HTTP/1.0 or said
close, part of its body was not read, we drain, or a stream failed in the middle.
"""

import contextlib
import struct
from collections.abc import Callable
from http import HTTPStatus

from gevent import Timeout, socket

from blazar.proxy.exchange import ClientGone, ClientSlow
from blazar.proxy.wire.framing import LAST_CHUNK, ChunkedFraming, chunk
from blazar.proxy.wire.watch import Watch

PHRASES = {status.value: status.phrase for status in HTTPStatus}

LINGER = 2.0
"""Seconds for which a client that is still sending is read after its answer."""
SLICE = 65536
"""Bytes that a client must take within the write timeout."""


class SocketSink:
    """Writes one answer to a client's socket, with a head of our own."""

    def __init__(self, sock: socket.socket, *, old: bool = False, closing: bool = False, unread: bool = False,
                 headless: bool = False,
                 write_timeout: float | None = None, draining: Callable[[], bool] = lambda: False) -> None:
        """`old`: an HTTP/1.0 client; `closing`: no request may follow; `unread`: the request has a body, which
        nobody has read yet; `headless`: a HEAD request, so the answer has no body."""
        self.started = False
        self.status = 0
        self.gone = False
        self.closing = closing or old
        self.unread = unread
        self._sock = sock
        self.old = old
        self._bodiless = headless
        self._write_timeout = write_timeout
        self._draining = draining
        self._encode: Callable[[bytes], bytes] | None = None
        self._last = b""

    def start(self, status: int, headers: list[tuple[str, str]], *, raw_chunked: bool = False) -> None:
        self.started, self.status = True, status
        self.closing = self.closing or self.unread or self._draining()
        lines = [f"HTTP/1.1 {status} {PHRASES.get(status, '')}", *(f"{name}: {value}" for name, value in headers)]
        self._bodiless = self._bodiless or status in (204, 304)
        if not self._bodiless and not any(name.lower() == "content-length" for name, _ in headers):
            lines += self._choose_coding(raw_chunked)
        lines.append("Connection: close" if self.closing else "Connection: keep-alive")
        self._send("\r\n".join([*lines, "", ""]).encode("latin-1"))

    def _choose_coding(self, raw_chunked: bool) -> list[str]:
        if self.old:
            self._encode = ChunkedFraming().feed if raw_chunked else None
            return []
        if not raw_chunked:
            self._encode, self._last = chunk, LAST_CHUNK
        return ["Transfer-Encoding: chunked"]

    def write(self, data: bytes) -> None:
        if data and not self._bodiless:
            data = self._encode(data) if self._encode is not None else data
            if data:
                self._send(data)

    def finish(self) -> None:
        if self._last and not self._bodiless:
            self._send(self._last)
        if self.unread:
            self._linger()
        if self.closing:
            self._shut(socket.SHUT_RDWR)

    def abort(self) -> None:
        self.closing = True
        if self.old:
            # Its body ends with the connection, so only a reset tells that it is not whole; gunicorn closes.
            with contextlib.suppress(OSError):
                self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        else:
            self._shut(socket.SHUT_RDWR)

    def _send(self, data: bytes) -> None:
        if self.gone:
            raise ClientGone
        try:
            for start in range(0, len(data), SLICE):
                with Timeout(self._write_timeout, TimeoutError("the client does not read")):
                    self._sock.sendall(data[start:start + SLICE])
        except OSError as error:
            self.gone = self.closing = True
            self._shut(socket.SHUT_RDWR)
            raise (ClientSlow if isinstance(error, TimeoutError) else ClientGone) from error

    def _linger(self) -> None:
        """Read on for a moment: to close upon unread bytes would reset the connection, and the answer with it."""
        self._shut(socket.SHUT_WR)
        with Timeout(LINGER, False), contextlib.suppress(OSError):
            while self._sock.recv(65536):
                pass

    def _shut(self, how: int) -> None:
        with contextlib.suppress(OSError):
            self._sock.shutdown(how)

    @contextlib.contextmanager
    def watching(self, on_gone: Callable[[], None]):
        """Within this block, call `on_gone` from the event loop as soon as the client closes its side."""
        def gone() -> None:
            self.gone = self.closing = True
            on_gone()

        watch = Watch(self._sock.fileno(), gone)
        try:
            yield
        finally:
            watch.stop()
