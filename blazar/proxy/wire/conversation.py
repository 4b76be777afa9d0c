"""The requests of one client's connection, one after the other, each through the head check to the application."""

import time
from io import BytesIO
from socket import SHUT_RD
from typing import Any, Final

from gunicorn.http import wsgi

from blazar.errors import BlazarError, RequestStalled
from blazar.proxy.head_facts import FACTS, HeadFacts
from blazar.proxy.request import REQUEST
from blazar.proxy.wire.client import Client
from blazar.proxy.wire.familiar import LONGEST, Familiar, Heads
from blazar.proxy.wire.intake import ClientParser, Unreadable
from blazar.proxy.wire.lean import CLIENT, base_environ, body_of, lean_environ, own_environ
from blazar.proxy.wire.request_head import END, check_head, receive_head
from blazar.proxy.wire.turns import Turns
from blazar.units import format_duration

HEAD_TIMEOUT: Final = 20.0
"""Seconds from the first byte of a head to its last."""


class Door:
    """What is the same for every connection of one listener."""

    def __init__(self, config: Any, listener: Any, turns: Turns, tls: Any = None) -> None:
        """`tls`: the ssl.SSLContext of a listener whose connections begin with a TLS handshake."""
        self.name = listener.getsockname()
        self.tls = tls
        self.base = base_environ(config, self.name, "http" if tls is None else "https")
        self.turns = turns
        self.keepalive = config.keepalive
        """Seconds for which a connection may be idle."""
        self._heads: Heads[dict[str, Any]] = Heads()

    def head(self, raw: bytes) -> Familiar[dict[str, Any]] | None:
        """A head and what it tells the environ of any connection; None for an unusual one. Raises HeadRefused and its
        kin."""
        return self._heads.find(raw) or self._check(raw)

    def _check(self, raw: bytes) -> Familiar[dict[str, Any]] | None:
        environ = lean_environ(self.base, check_head(raw))
        if environ is None:
            return None
        environ[FACTS] = HeadFacts(environ)
        return self._heads.keep(raw, environ)

    def client(self, sock: Any) -> Client:
        """For a connection that was accepted."""
        if self.tls is None:
            return Client(sock)
        from blazar.proxy.wire.tls_client import TlsClient
        return TlsClient(sock, self.tls)


class Conversation:
    """`worker` is gunicorn's: its settings, its application, and whether it stops."""

    def __init__(self, worker: Any, door: "Door", client: Client, address: Any) -> None:
        self._worker = worker
        self._door = door
        self._client = client
        self._address = address
        self._head_until = 0.0
        self._familiar: Familiar[dict[str, Any]] | None = None
        self._last = b""
        """The head of the last ordinary request, with its end, where it is remembered; and what it told."""
        self._environ: dict[str, Any] = {}
        self._length = 0

    def run(self) -> None:
        """Answer requests until one of both sides ends it. Raises OSError when the client leaves or stalls."""
        client, keepalive, turns = self._client, self._door.keepalive, self._door.turns
        client.greet(HEAD_TIMEOUT)
        while began := client.begin(keepalive, turns):
            last = self._last
            if last and began.startswith(last):
                ordinary, rest = True, began[len(last):]
            else:
                self._head_until = 0.0
                try:
                    raw, rest = receive_head(began, self._more)
                    began = raw
                    ordinary = self._read(raw)
                except BlazarError as error:
                    self._worker.wsgi.refuse_head(client, began, error)
                    return
            client.busy = True
            try:
                another = self._answer_ordinary(rest) if ordinary else self._answer_unusual(raw, rest)
            finally:
                client.busy = False
                if self._worker.parting:
                    client.shut(SHUT_RD)
            if not another:
                return
            if client.ahead:  # who sent its next request already must not have us to itself
                self._worker.app.gateway.pace()

    def _read(self, raw: bytes) -> bool:
        """Read a head; whether it is that of an ordinary request. Raises HeadRefused and its kin."""
        known = self._familiar
        length = known.length(raw) if known is not None else None
        if length is None:
            known = self._door.head(raw)
            if known is None:
                return False
            length = known.length(raw) or 0
            self._environ = own_environ(known.known, self._client, self._address)
        short = len(raw) <= LONGEST
        self._familiar, self._last = (known, raw + END) if short else (None, b"")
        self._environ["CONTENT_LENGTH"] = str(length) if length else ""
        self._length = length
        return True

    def _more(self) -> bytes:
        now = time.monotonic()
        self._head_until = self._head_until or now + HEAD_TIMEOUT
        try:
            data = self._client.recv(within=max(0.0, self._head_until - now))
        except TimeoutError as error:
            raise RequestStalled(part="head", limit=format_duration(HEAD_TIMEOUT)) from error
        if not data:
            raise ConnectionAbortedError("the client left within its head")
        return data

    def _answer_ordinary(self, rest: bytes) -> bool:
        """Have the request with the head that was read last answered, `rest` being what came after that head."""
        environ = self._environ.copy()
        whole = len(rest) == self._length
        environ["wsgi.input"] = BytesIO(rest) if whole else body_of(self._client, rest, self._length)
        return self._answer(environ, _ignore)

    def _answer(self, environ: dict[str, Any], start_response: Any) -> bool:
        """Have the application answer; whether another request may follow."""
        self._worker.wsgi(environ, start_response)
        sink = environ[REQUEST].sink
        return sink.started and not sink.closing

    def _answer_unusual(self, raw: bytes, rest: bytes) -> bool:
        """The same, by way of gunicorn's own parser, which gets the bytes as they came."""
        self._client.unread(raw + END + rest)
        parser = ClientParser(self._worker.cfg, self._client, self._address)
        try:
            request = next(parser)
        except Unreadable as unreadable:
            self._worker.wsgi.refuse_head(self._client, unreadable.began, unreadable.error)
            return False
        response, environ = wsgi.create(request, self._client.sock, self._address, self._door.name,
                                        self._worker.cfg)
        environ[CLIENT] = self._client
        environ["wsgi.url_scheme"] = self._door.base["wsgi.url_scheme"]
        another = self._answer(environ, response.start_response)
        self._client.unread(parser.unreader.buf.getvalue())
        return another


def _ignore(status: str, headers: list[tuple[str, str]], exc_info: Any = None) -> None:
    """Falcon's word on an answer that the sink has sent already."""
