"""`Request`: one HTTP request as a resource sees it: its head, its body once somebody reads it, and its sink."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import getrandbits
from typing import Any, Final

from gunicorn.http.errors import NoMoreData, ParseException

from blazar.errors import BodyTooLarge, CodingRefused, RequestRefused, RequestStalled
from blazar.proxy import greens
from blazar.proxy.exchange import ClientGone, send_whole
from blazar.proxy.forwarded import Proxies
from blazar.proxy.head_facts import HeadFacts
from blazar.proxy.wire.client import READ_TIMEOUT
from blazar.proxy.wire.framing import BadFraming
from blazar.proxy.wire.lean import CLIENT
from blazar.proxy.wire.sinks import SocketSink
from blazar.proxy.wire.stock import StockClient
from blazar.units import format_bytes, format_duration

REQUEST: Final = "blazar.request"
"""Where the environ keeps our Request."""
READ_SIZE: Final = 1 << 18
"""Bytes of a body that are read at once."""
MOST_PIECES: Final = 2048
"""Pieces of a body that are kept as they came: one that is sent without pauses has fewer."""


class Ids:
    """Ids for requests that bring none; nobody needs to be kept from guessing them."""

    def __init__(self) -> None:
        self._beginning = f"req_{getrandbits(64):016x}"
        self._next = 100_000_000

    def new(self) -> str:
        self._next += 1
        return self._beginning + str(self._next)[-8:]


@dataclass(frozen=True)
class Terms:
    """What is the same for all requests of one gateway."""

    max_body: int
    """Bytes of the longest body."""
    write_timeout: float | None = None
    """Seconds for which a client may take nothing of its answer."""
    proxies: Proxies = field(default_factory=Proxies)
    """Whose word counts on who the client is."""
    read_timeout: float = READ_TIMEOUT
    """Seconds for which it may pause within its body."""
    pace: Callable[[], None] = lambda: None
    draining: Callable[[], bool] = lambda: False
    ids: Ids = field(default_factory=Ids)


class Request:
    """Reads from the WSGI environ; writes to the client's own socket. Falcon takes it for its own kind of request."""

    api_key: Any = None
    account: Any = None
    """The `Account` of its API key, where that has limits which answers tell of."""
    route: Any = None
    """The row of the route table, once it is found."""
    background: bool = False
    """No client waits for its answer."""
    _timed: bool = False
    """The connection of its client keeps no time of reads."""
    is_websocket: bool = False
    """What Falcon asks besides; and what it tells, the path of the route table."""
    uri_template: str | None = None

    def __init__(self, environ: dict[str, Any], terms: Terms, facts: HeadFacts | None = None, sink: Any = None) -> None:
        """With a `sink` the answer goes there, and not to the client of the environ, which may then have none."""
        # The environ holds this request, so it is not kept: the two would wait for Python's search for cycles.
        self.facts = facts = facts or HeadFacts(environ)
        self.method = facts.method
        self.path = facts.path
        self.headers = facts.headers
        self.id = facts.given_id or terms.ids.new()
        self._read = environ["wsgi.input"].read
        self._length = length = int(environ.get("CONTENT_LENGTH") or 0)
        self._terms = terms
        if sink is None:
            client = environ.get(CLIENT)
            if client is None:
                self._timed = True
                client = StockClient(environ["gunicorn.socket"])
            sink = SocketSink(client, facts.closing, length > 0 or facts.chunked, facts.old, facts.headless,
                              terms.draining, terms.write_timeout)
        else:
            self.background = self._timed = True
        self.sink: SocketSink = sink

    @property
    def query(self) -> str:
        return self.facts.query

    @property
    def host(self) -> str:
        """Host and port for which the request is meant."""
        return self.facts.host

    @property
    def cors(self) -> tuple[tuple[str, str], ...]:
        """What a browser is told about the page that sent this."""
        return self.facts.cors

    def peer(self) -> str:
        """Who asks: an address, with the port where the client itself is connected here."""
        return self._terms.proxies.client(self.sink.peer(), self.headers.get("x-forwarded-for", ""))

    @property
    def length(self) -> int:
        """Bytes of the body, as far as the head tells; else 0."""
        return self._length

    def body(self) -> bytes:
        """The whole body. Raises BodyTooLarge, CodingRefused, RequestStalled and RequestRefused, or ClientGone when the
        client left before its end."""
        limit = self._terms.max_body
        if self._length > limit or self.facts.demands:
            self._begin_body(limit)
        data = self._next()
        if not data or len(data) != self._length:
            data = self._gathered(data, limit)
        self.sink.unread = False
        return data

    def _gathered(self, data: bytes, limit: float) -> bytes:
        """The same, with an object kept for each piece only while these are few: a client may send millions."""
        pieces: list[bytes] = []
        whole = bytearray()
        for piece in self._rest(data, limit):
            if len(pieces) < MOST_PIECES:
                pieces.append(piece)
            else:
                whole += piece
        return b"".join((*pieces, whole))

    def pieces(self) -> Iterator[bytes]:
        """The body as it comes, however long; raises what `body` raises."""
        self._begin_body(math.inf)
        yield from self._rest(self._next(), math.inf)
        self.sink.unread = False

    def _begin_body(self, limit: float) -> None:
        facts = self.facts
        if facts.coding:
            raise CodingRefused(coding=facts.coding[:40])
        if self._length > limit:
            raise self._too_large()
        if facts.expects and self.sink.unread:
            self.sink.interim(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _rest(self, data: bytes, limit: float) -> Iterator[bytes]:
        """A body that comes in pieces, `data` first."""
        size = 0
        while data:
            size += len(data)
            if size > limit:
                raise self._too_large()
            yield data
            if size == self._length:
                break
            if size > READ_SIZE:
                self._terms.pace()  # bytes that are there already are read without waiting
            data = self._next()
        if size < self._length:
            raise ClientGone

    def _next(self) -> bytes:
        try:
            if not self._timed:
                return self._read(READ_SIZE)
            with greens.Timeout(self._terms.read_timeout, TimeoutError("the client does not send")):
                return self._read(READ_SIZE)
        except TimeoutError as error:
            raise RequestStalled(part="body", limit=format_duration(self._terms.read_timeout)) from error
        except (NoMoreData, ConnectionError) as error:
            raise ClientGone from error
        except (BadFraming, OSError, ParseException, ValueError) as error:  # ours and gunicorn's words for bad chunks
            raise RequestRefused(f"the request body breaks the rules of HTTP: {error}") from error

    def answer(self, status: int, body: bytes, content_type: str = "application/json",
               headers: tuple[tuple[str, str], ...] = ()) -> None:
        """Send a whole answer."""
        send_whole(self.sink, status, [*self.own_headers(), *headers], body, content_type)

    def own_headers(self) -> list[tuple[str, str]]:
        """The headers that every answer carries."""
        if self.account is not None:
            return [*self.plain_headers(), *self.account.headers(self.route.dialect)]
        return self.plain_headers()

    def plain_headers(self) -> list[tuple[str, str]]:
        """Those, without what is left of the limits: stage `quota` adds that once the request is counted."""
        return [("X-Request-Id", self.id), *self.facts.cors]

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(limit=format_bytes(self._terms.max_body))
