"""One request to a child and its answer: head out, head in, body followed until it ends.

`Call` owns a pooled connection for as long as the answer lasts and gives it back only when the framing says that
the answer ended cleanly.
"""

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

from gevent import Timeout

from blazar.errors import ChildFailed, ChildSilent
from blazar.proxy.exchange import Exchange, Retryable, Sink
from blazar.proxy.greens import MOMENT, sleep, spawn
from blazar.proxy.meter import Meter
from blazar.proxy.wire.flow import ChildClosed, Flow
from blazar.proxy.wire.framing import BadFraming, Framing
from blazar.proxy.wire.head import MAX_HEAD, Head
from blazar.proxy.wire.pool import Connection, Pool
from blazar.transport import Endpoint
from blazar.units import format_duration

SLICE: Final = 1 << 20
"""Bytes of a body that are sent at a time."""
SETTLE: Final = 0.2
"""Seconds for the framing that follows the last event of a stream."""


class Call:
    """One attempt at one child. Use as a context manager."""

    def __init__(self, pool: Pool, endpoint: Endpoint, header_timeout: float | None, meter: Meter) -> None:
        self.meter = meter
        self._pool = pool
        self._endpoint = endpoint
        self._header_timeout = header_timeout
        self._connection: Connection
        self._rest = b""
        """Bytes of the answer that nobody has looked at yet."""
        self._head: Head | None = None
        self._framing: Framing | None = None
        """What follows the body; None before somebody reads it, and where all of it came with the head."""
        self._had_all = False
        """The body was all there, and has been taken."""
        self._quiet_since = 0.0
        """From when on the child may be taken to say nothing, of CLOCK_MONOTONIC; 0 before its answer has begun."""
        self._settling = False
        """Somebody else reads the end, and gives the connection back."""

    @property
    def answered(self) -> bool:
        """Whether the head of the answer is there."""
        return self._head is not None

    @property
    def head(self) -> Head:
        """The head of the answer, once `ask` has returned."""
        assert self._head is not None
        return self._head

    @property
    def framing(self) -> Framing:
        """What follows the body of the answer."""
        framing = self._framing
        if framing is None:
            framing = self._framing = self.head.framing()
        return framing

    @property
    def between_events(self) -> bool:
        """Where the pieces so far end, which the client has, an event may begin."""
        return self.head.length is None and self.framing.at_boundary and self.meter.between_events

    def __enter__(self) -> "Call":
        try:
            self._connection = self._pool.take(self._endpoint)
        except OSError as error:
            refused = self._failed(f"it does not accept connections ({error})")
            raise Retryable(refused, unreachable=True) from error
        return self

    def __exit__(self, *_: object) -> None:
        if not self._settling:
            self._release()

    def _release(self) -> None:
        head, connection = self._head, self._connection
        whole = self._had_all or (head is not None and self.framing.ended and self.framing.clean)
        if head is not None and head.keeps and whole and not connection.interrupted:
            self._pool.give_back(connection, self._endpoint, head.chunked, head.kept)
        else:
            self._pool.close(connection)

    def interrupt(self) -> None:
        """Close the child's connection under whoever waits for it."""
        self._connection.interrupt()

    def ask(self, exchange: Exchange) -> Head:
        """Send the request and wait for the head of the answer.

        Raises Retryable when a re-used connection proved stale before any byte came, else ChildFailed or
        ChildSilent.
        """
        connection = self._connection
        if self._header_timeout is not None:
            connection.deadline = time.monotonic() + self._header_timeout
        try:
            self._send(exchange)
            exchange.sent = time.monotonic()
            self._pool.meanwhile()
            head = self._head = self._read_head()
        except (OSError, ChildClosed) as error:
            if connection.late:
                raise self._silent() from error
            failed = self._failed("it closed the connection before it answered")
            if connection.reused and not self._rest and not exchange.sink.gone and exchange.ended_by is None:
                self._pool.found_stale(connection)
                raise Retryable(failed) from error
            raise failed from error
        except BadFraming as error:
            raise self._failed(f"its answer is not HTTP: {error}") from error
        connection.deadline = math.inf
        self._quiet_since = time.monotonic()
        return head

    def quiet_for(self, now: float) -> float:
        """Seconds for which nothing has come of an answer that has begun; 0 when something is there to be read."""
        since = max(self._quiet_since, self.meter.heard)
        return now - since if since and not self._connection.has_news() else 0.0

    def excuse(self, now: float) -> None:
        """That is counted from `now` on."""
        self._quiet_since = now

    def _send(self, exchange: Exchange) -> None:
        head, body = request_head(exchange, self._endpoint), exchange.upstream_body
        if len(body) <= SLICE:
            self._connection.send(head + body)
            return
        self._connection.send(head)
        for start in range(0, len(body), SLICE):
            self._connection.send(body[start:start + SLICE])
            sleep(MOMENT)  # a socket that takes everything would keep others waiting

    def _read_head(self) -> Head:
        data = self._rest = self._receive()
        heads = self._connection.heads
        while True:
            found = heads.read(data)
            if found is None:
                if len(data) > MAX_HEAD:
                    raise BadFraming("its head is too long")
                data = self._rest = data + self._receive()
                continue
            head, data = found
            self._rest = data
            if head.status >= 200:
                return head

    def _receive(self) -> bytes:
        data = self._connection.receive()
        if not data:
            raise ChildClosed
        return data

    def whole(self) -> bytes | None:
        """The body, when all of it came with the head, and nothing more; to be asked first of all."""
        rest = self._rest
        if len(rest) != self.head.length:
            return None
        self._rest, self._had_all = b"", True
        self.meter.add(rest, self._quiet_since)
        return rest

    def relay(self, sink: Sink) -> None:
        """Move the body to the client as it comes, chunk framing included. Raises as `pieces` does, and ClientGone."""
        chunked, framing = self.head.chunked, self.framing
        take = self._following(as_it_came=chunked)
        rest, self._rest = self._rest, b""
        if rest:
            sink.write(take(rest))
            if framing.ended:
                return
        else:
            sink.flush()
        client = sink.direct()
        if client is None:
            for wire, payload in self.pieces():
                sink.write(wire if chunked else payload)
        elif not framing.ended:
            try:
                Flow(self._connection, framing, take, client).run()
            except OSError as error:
                raise sink.departed() from error

    def pieces(self) -> Iterator[tuple[bytes, bytes]]:
        """The body as it comes: (wire bytes, payload in them). Raises ChildClosed when the child ends it early."""
        framing, take = self.framing, self._following()
        data, self._rest = self._rest, b""
        while not framing.ended:
            if data:
                yield data, take(data)
            if not framing.ended:
                try:
                    data = self._receive()
                except (OSError, ChildClosed) as error:
                    if framing.close():
                        return
                    raise ChildClosed from error

    def _following(self, as_it_came: bool = False) -> Callable[[bytes], bytes]:
        """What follows the body: it is shown the next bytes, and gives the payload in them, or those `as_it_came`."""
        framing, meter, now = self.framing, self.meter, time.monotonic

        def follow(data: bytes) -> bytes:
            payload = framing.feed(data)
            meter.add(payload, now())
            if framing.ended and not framing.clean:
                raise BadFraming("more bytes than its body has")
            return data if as_it_came else payload
        return follow

    def settle(self) -> None:
        """Have the end of an answer whose content is known already read, for a moment, so the connection can be kept.

        Nobody waits for that: the client has its answer, and may ask again at once.
        """
        if not (self._had_all or self.framing.ended or self._connection.interrupted):
            self._settling = True
            spawn(self._settle)

    def _settle(self) -> None:
        try:
            with contextlib.suppress(ChildClosed, BadFraming), Timeout(SETTLE, False):
                for _ in self.pieces():
                    pass
        finally:
            self._release()

    def _silent(self) -> ChildSilent:
        return ChildSilent(model=self._endpoint.model, limit=format_duration(self._header_timeout or 0))

    def _failed(self, reason: str) -> ChildFailed:
        return ChildFailed(model=self._endpoint.model, reason=reason)


def request_head(exchange: Exchange, endpoint: Endpoint) -> bytes:
    """The head for the child. Nothing of the caller's own head is in it; the secret is the child's."""
    return b"%b%d\r\n\r\n" % (_head_before_length(endpoint.address, endpoint.secret, exchange.method,
                                                  exchange.upstream_path, exchange.stream), len(exchange.upstream_body))


@lru_cache(64)
def _head_before_length(address: tuple[str, int] | str, secret: str | None, method: str, path: str,
                        stream: bool) -> bytes:
    host = "localhost" if isinstance(address, str) else f"{address[0]}:{address[1]}"
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Content-Type: application/json",
             f"Accept: {'text/event-stream' if stream else 'application/json'}"]
    if secret:
        lines.append(f"Authorization: Bearer {secret}")
    return "\r\n".join([*lines, "Content-Length: "]).encode("latin-1")
