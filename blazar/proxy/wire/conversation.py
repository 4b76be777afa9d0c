"""The requests of one client's connection, one after the other, each through the head check to the application."""

import time
from socket import SHUT_RD
from typing import Any

from gunicorn.http import wsgi

from blazar.errors import BlazarError, RequestStalled
from blazar.proxy.head_facts import FACTS, HeadFacts
from blazar.proxy.request import REQUEST
from blazar.proxy.wire.client import Client
from blazar.proxy.wire.familiar import Familiar, familiar
from blazar.proxy.wire.intake import HEAD_TIMEOUT, ClientParser, Unreadable
from blazar.proxy.wire.lean import CLIENT, add_body, base_environ, lean_environ
from blazar.proxy.wire.request_head import END, check_head, receive_head
from blazar.proxy.wire.turns import Turns
from blazar.units import format_duration


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

    def run(self) -> None:
        """Answer requests until one of both sides ends it. Raises OSError when the client leaves or stalls."""
        client, keepalive, turns = self._client, self._door.keepalive, self._door.turns
        client.greet(HEAD_TIMEOUT)
        while began := client.begin(keepalive, turns):
            self._head_until = 0.0
            try:
                raw, rest = receive_head(began, self._more)
                began = raw
                environ = self._environ(raw, rest)
            except BlazarError as error:
                self._worker.wsgi.refuse_head(client, began, error)
                return
            client.busy = True
            try:
                another = self._answer(environ, _ignore) if environ is not None else self._answer_unusual(raw, rest)
            finally:
                client.busy = False
                if self._worker.parting:
                    client.shut(SHUT_RD)
            if not another:
                return
            if client.ahead:  # who sent its next request already must not have us to itself
                self._worker.app.gateway.pace()

    def _environ(self, raw: bytes, rest: bytes) -> dict[str, Any] | None:
        """The environ of a request with that head, `rest` being what came after it; None for an unusual one. Raises
        HeadRefused and its kin."""
        last = self._familiar
        length = last.length(raw) if last is not None else None
        if last is not None and length is not None:
            environ = last.known.copy()
        else:
            head = check_head(raw)
            lean = lean_environ(self._door.base, head, self._client, self._address)
            if lean is None:
                return None
            lean[FACTS] = HeadFacts(lean)
            environ, length = lean, int(head.field("content-length") or 0)
            self._familiar = familiar(raw, lean.copy())
        add_body(environ, self._client, rest, length)
        return environ

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
