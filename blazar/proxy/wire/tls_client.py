"""`TlsClient`: a client's connection with TLS on it, for everybody else the same as one without.

The records are made and read in memory, between the bytes of the socket and those that its users see. So watching,
back-pressure and deadlines stay those of `Client`, and what comes from the event loop is encrypted in its callbacks.
"""

import contextlib
import socket
import ssl
import time
from typing import Any, Final

from blazar.proxy.wire.client import GLANCE, READ_SIZE, Client

PLAIN_HTTP: Final = b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: %d\r\n" \
             b"Connection: close\r\n\r\n%b"
SPEAK_TLS: Final = b'{"error":{"message":"this port speaks TLS: write https:// instead of http://",' \
            b'"type":"invalid_request_error","code":"tls-wanted"}}'


class TlsClient(Client):
    """`greet` comes first."""

    def __init__(self, sock: Any, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        super().__init__(sock)  # last, since it watches
        self._greeted = False

    def greet(self, within: float) -> None:
        """Agree on keys, within so many seconds. Raises OSError when that fails."""
        until = time.monotonic() + within
        while not self._greeted:
            try:
                self._tls.do_handshake()
                self._greeted = True
            except ssl.SSLWantReadError:
                super().push(self._outgoing.read())
                came = super()._receive(READ_SIZE, max(0.0, until - time.monotonic()))
                if not came:
                    raise ConnectionAbortedError("the client left") from None
                self._incoming.write(came)
            except ssl.SSLError as error:
                refusal = self._outgoing.read()  # an alert, for those who understand it
                if error.reason == "HTTP_REQUEST":
                    refusal = PLAIN_HTTP % (len(SPEAK_TLS), SPEAK_TLS)
                super().push(refusal)
                raise
        super().push(self._outgoing.read())

    # -- as Client has it ----------------------------------------------------------------------------

    @property
    def ahead(self) -> bool:
        return bool(self._unread or self._incoming.pending or self._tls.pending())

    def push(self, data: bytes) -> bool:
        self._check()
        view = memoryview(data)
        while view:
            taken = self._tls.write(view)
            view = view[taken:]
        return super().push(self._outgoing.read())

    def shut(self, how: int) -> None:
        if how != socket.SHUT_RD and self._greeted and not self._lost:
            with contextlib.suppress(OSError):
                self._say_goodbye()
        super().shut(how)

    # ------------------------------------------------------------------------------------------------

    def _say_goodbye(self) -> None:
        """Without it, a client could not tell our end of the connection from somebody else's."""
        with contextlib.suppress(ssl.SSLWantReadError):  # its own goodbye is not waited for
            self._tls.unwrap()
        super().push(self._outgoing.read())

    def _receive(self, size: int, within: float | None) -> bytes:
        while (data := self._decrypt(size)) is None:
            came = super()._receive(READ_SIZE, within)
            if not came:
                return b""
            self._incoming.write(came)
        return data

    def _glimpse(self) -> bytes:
        """Of records, nothing."""
        return b""

    def _decrypt(self, size: int) -> bytes | None:
        """What can be read; none at the end; None while there is not enough for anything. Raises OSError."""
        try:
            return self._tls.read(size)
        except ssl.SSLWantReadError:
            return None
        except ssl.SSLZeroReturnError:
            return b""

    def _look(self) -> None:
        """Bytes need not mean a request: they may be a goodbye, or of TLS itself."""
        try:
            came = self._bare.recv(READ_SIZE)
            self._incoming.write(came)
            data = self._decrypt(READ_SIZE) if came else b""
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data is None:
            return
        self._disarm()
        if not data:
            self._lose()
            return
        self._unread += data
        if self._glances is None:
            self._glances = self._loop.timer(GLANCE, repeat=GLANCE)
        self._glances.start(self._glance)
