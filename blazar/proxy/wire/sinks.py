"""Where answers go: `SocketSink` writes to the client's socket.

gunicorn leaves an answered connection alone (ALREADY_HANDLED), its own keep-alive decision included, so the sink
writes `Connection:` itself and shuts the socket when it must not be used again: the client speaks HTTP/1.0 or said
close, part of its body was not read, we drain, or a stream failed in the middle.
"""

import contextlib
import socket
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from blazar.proxy.exchange import ClientGone, ClientSlow, Sink
from blazar.proxy.wire.client import AnyClient, Client
from blazar.proxy.wire.framing import LAST_CHUNK, ChunkedFraming, chunk

STATUS_LINES: Final = {status.value: f"HTTP/1.1 {status.value} {status.phrase}" for status in HTTPStatus}

BODILESS: Final = (204, 304)
"""Statuses of answers without a body."""

CHUNKED: Final = "\r\nTransfer-Encoding: chunked"
CLOSE: Final = "\r\nConnection: close\r\n\r\n"
KEEP: Final = "\r\nConnection: keep-alive\r\n\r\n"

LINGER: Final = 2.0
"""Seconds for which a client that is still sending is read after its answer."""


def peer_of(sock: socket.socket) -> str:
    """Address and port of the other end, as URLs write them."""
    try:
        address = sock.getpeername()
    except OSError:
        return ""
    if not isinstance(address, tuple):
        return ""
    return f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"


class SocketSink(Sink):
    """Writes one answer to a client's connection, with a head of our own, which leaves with what follows it."""

    started: bool = False
    gone: bool = False
    early: bool = False
    closing: bool = False
    status: int = 0
    _encode: Callable[[bytes], bytes] | None = None
    _last: bytes = b""
    """The end of the body."""
    _held: bytes = b""
    """The head, until something else is sent with it."""

    def __init__(self, client: AnyClient, closing: bool = False, unread: bool = False, old: bool = False,
                 headless: bool = False, draining: Callable[[], bool] = lambda: False,
                 write_timeout: float | None = None) -> None:
        """`closing`: no request may follow; `unread`: the request has a body, which nobody has read yet; `old`: an
        HTTP/1.0 client; `headless`: a HEAD request, so the answer has no body."""
        self.closing = closing or old
        self.unread = unread
        self.old = old
        self._client = client
        self._bodiless = headless
        self._draining = draining
        self._on_gone: Callable[[], None] = _nobody
        client.write_timeout = write_timeout

    def start(self, status: int, headers: list[tuple[str, str]], *, raw_chunked: bool = False) -> None:
        # A length is the last of the headers, and spelt Content-Length.
        if self.gone:
            raise self.departed()
        if self.early:
            self.early = False
            if raw_chunked:
                self._pass_chunks()
            return
        self._held = self._head(status, headers, raw_chunked)

    def _head(self, status: int, headers: list[tuple[str, str]], raw_chunked: bool = False) -> bytes:
        self.started, self.status = True, status
        self.closing = self.closing or self.unread or self._draining()
        self._bodiless = self._bodiless or status in BODILESS
        parts = [STATUS_LINES.get(status) or f"HTTP/1.1 {status} "]
        for name, value in headers:
            parts += ("\r\n", name, ": ", value)
        if not (self._bodiless or (headers and headers[-1][0] == "Content-Length")):
            parts.append(self._choose_coding(raw_chunked))
        parts.append(CLOSE if self.closing else KEEP)
        return "".join(parts).encode("latin-1")

    def give(self, status: int, headers: list[tuple[str, str]], body: bytes) -> None:
        if self.gone or self.early or self._bodiless:
            self.start(status, headers)
            self.write(body)
            self.finish()
            return
        head = self._head(status, headers)
        try:
            self._client.send(head if self._bodiless else head + body)
        except OSError as error:
            raise self.departed() from error
        self._end()

    def _choose_coding(self, raw_chunked: bool) -> str:
        """The header that says how a body of unknown length ends."""
        if self.old:
            self._encode = ChunkedFraming().feed if raw_chunked else None
            return ""
        if not raw_chunked:
            self._encode, self._last = chunk, LAST_CHUNK
        return CHUNKED

    def _pass_chunks(self) -> None:
        """What follows the head of a stream that left early carries chunk framing already."""
        self._encode, self._last = ChunkedFraming().feed if self.old else None, b""

    def beat(self, headers: list[tuple[str, str]], data: bytes) -> None:
        client = self._client
        if self.gone or not isinstance(client, Client) or client.pending:
            return
        if not self.started:
            self.start(200, headers)
            self.early = True
        held, self._held = self._held, b""
        with contextlib.suppress(OSError):  # whoever watches the client is told that it is gone
            client.push(held + (data if self._encode is None else self._encode(data)))

    def write(self, data: bytes) -> None:
        if data and not self._bodiless:
            self._send(self._encode(data) if self._encode is not None else data)

    def flush(self) -> None:
        """Send the head, if it still waits for a body."""
        self._send(b"")

    def direct(self) -> Client | None:
        """The client, when the rest of the body may be pushed to it as it is, from the event loop."""
        plain = self._encode is None and not self._bodiless
        return self._client if plain and isinstance(self._client, Client) else None

    def finish(self) -> None:
        if self._held or self._last:
            self._send(b"" if self._bodiless else self._last)
        self._end()

    def _end(self) -> None:
        if self.unread:
            self._linger()
        if self.closing:
            self._client.shut(socket.SHUT_RDWR)

    def abort(self) -> None:
        self.closing = True
        with contextlib.suppress(ClientGone):
            self.flush()
        if self.old:
            # Its body ends with the connection, so only a reset tells that it is not whole; the worker closes.
            self._client.reset_on_close()
        else:
            self._client.shut(socket.SHUT_RDWR)

    def departed(self) -> ClientGone:
        """Nothing can be sent to the client any more; what to raise."""
        self.gone = self.closing = True
        self._client.shut(socket.SHUT_RDWR)
        return ClientSlow() if self._client.slow else ClientGone()

    def peer(self) -> str:
        """Address and port of the client; empty when it is gone, or has none."""
        return peer_of(self._client.sock)

    def interim(self, head: bytes) -> None:
        """Send a head that is not that of the answer."""
        self._client.send(head)

    def _send(self, data: bytes) -> None:
        if self.gone:
            raise self.departed()
        if self._held:
            data, self._held = self._held + data, b""
        try:
            self._client.send(data)
        except OSError as error:
            raise self.departed() from error

    def _linger(self) -> None:
        """Read on for a moment: to close upon unread bytes would reset the connection, and the answer with it."""
        self._client.shut(socket.SHUT_WR)
        until = time.monotonic() + LINGER
        with contextlib.suppress(OSError):
            while (left := until - time.monotonic()) > 0 and self._client.recv(65536, within=left):
                pass

    def watch(self, on_gone: Callable[[], None]) -> None:
        """Until `unwatch`, call `on_gone` from the event loop as soon as the client closes its side."""
        self._on_gone = on_gone
        self._client.watch(self._left)

    def _left(self) -> None:
        self.gone = self.closing = True
        self._on_gone()

    def unwatch(self) -> None:
        self._client.unwatch()


def _nobody() -> None:
    """Watches."""
