"""`Request`: one HTTP request as a resource sees it: its head, its body once somebody reads it, and its sink."""

import math
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

from gunicorn.http.errors import NoMoreData, ParseException

from blazar.errors import BodyTooLarge, CodingRefused, RequestRefused, RequestStalled
from blazar.proxy import greens
from blazar.proxy.exchange import ClientGone, send_whole
from blazar.proxy.wire.client import READ_TIMEOUT
from blazar.proxy.wire.framing import BadFraming
from blazar.proxy.wire.lean import CLIENT, FIELDS
from blazar.proxy.wire.request_head import authority_of
from blazar.proxy.wire.sinks import SocketSink
from blazar.proxy.wire.stock import StockClient
from blazar.units import format_bytes, format_duration

REQUEST = "blazar.request"
"""Where the environ keeps our Request."""
EXPECTS = "HTTP_BLAZAR_EXPECT"
"""Where our gunicorn worker puts `Expect`, so that it is answered only once the body is wanted."""
READ_SIZE = 1 << 18
"""Bytes of a body that are read at once."""

_REQUEST_ID = re.compile(r"[\x21-\x7e]{1,128}")


class Request:
    """Reads from the WSGI environ; writes to the client's own socket."""

    def __init__(self, environ: dict[str, Any], *, max_body: int, write_timeout: float,
                 read_timeout: float = READ_TIMEOUT, pace: Callable[[], None] = lambda: None,
                 draining: Callable[[], bool] = lambda: False, sink: Any = None) -> None:
        """With a `sink` the answer goes there, and not to the client of the environ, which may then have none."""
        # The environ holds this request, so it is not kept: the two would wait for Python's search for cycles.
        self.method: str = environ["REQUEST_METHOD"]
        path = environ.get("PATH_INFO") or "/"
        self.path: str = path if path.isascii() else path.encode("latin-1").decode(errors="replace")
        self.query: str = environ.get("QUERY_STRING", "")
        headers: dict[str, str] = environ.get(FIELDS) or _headers(environ)
        self.headers = headers
        """By lower-case name."""
        self.host = authority_of(environ.get("RAW_URI", "")) or headers.get("host", "")
        """Host and port for which the request is meant."""
        self.cors: tuple[tuple[str, str], ...] = ()
        """What a browser is told about the page that sent this."""
        given = headers.get("x-request-id")
        self.id = given if given is not None and _REQUEST_ID.fullmatch(given) else new_id()
        self.api_key: Any = None
        self.route: Any = None
        """The row of the route table, once it is found."""
        self._input = environ["wsgi.input"].read
        self._length = int(environ.get("CONTENT_LENGTH") or 0)
        self._has_body = self._length > 0 or "HTTP_TRANSFER_ENCODING" in environ
        self._expects = environ.get(EXPECTS, "")
        self._max_body = max_body
        self._pace = pace
        self._read_timeout = read_timeout
        client = environ.get(CLIENT)
        self._waits_itself = client is not None
        """Its client's connection keeps the time of reads."""
        self.background = sink is not None
        """No client waits for its answer."""
        self.sink: SocketSink = sink or SocketSink(
            client or StockClient(environ["gunicorn.socket"]), old=environ.get("SERVER_PROTOCOL") == "HTTP/1.0",
            closing="close" in headers.get("connection", "").lower(), unread=self._has_body,
            headless=self.method == "HEAD", write_timeout=write_timeout, draining=draining)

    @property
    def length(self) -> int:
        """Bytes of the body, as far as the head tells; else 0."""
        return self._length

    def body(self) -> bytes:
        """The whole body. Raises BodyTooLarge, CodingRefused, RequestStalled and RequestRefused, or ClientGone when the
        client left before its end."""
        self._begin_body(self._max_body)
        data = self._read()
        if not data or len(data) != self._length:
            data = b"".join(self._rest(data, self._max_body))
        self.sink.unread = False
        return data

    def pieces(self) -> Iterator[bytes]:
        """The body as it comes, however long; raises what `body` raises."""
        self._begin_body(math.inf)
        yield from self._rest(self._read(), math.inf)
        self.sink.unread = False

    def _begin_body(self, limit: float) -> None:
        coding = self.headers.get("content-encoding", "").strip().lower()
        if coding not in ("", "identity"):
            raise CodingRefused(coding=coding[:40])
        if self._length > limit:
            raise self._too_large()
        if self._has_body and not self.sink.old and self._expects.lower() == "100-continue":
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
                self._pace()  # bytes that are there already are read without waiting
            data = self._read()
        if size < self._length:
            raise ClientGone

    def _read(self) -> bytes:
        read = self._input
        try:
            if self._waits_itself:
                return read(READ_SIZE)
            with greens.Timeout(self._read_timeout, TimeoutError("the client does not send")):
                return read(READ_SIZE)
        except TimeoutError as error:
            raise RequestStalled(part="body", limit=format_duration(self._read_timeout)) from error
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
        return [("X-Request-Id", self.id), *self.cors]

    def _too_large(self) -> BodyTooLarge:
        return BodyTooLarge(limit=format_bytes(self._max_body))


def _headers(environ: dict[str, Any]) -> dict[str, str]:
    headers = {name[5:].replace("_", "-").lower(): value for name, value in environ.items()
               if name.startswith("HTTP_") and name != EXPECTS}
    for name, key in (("content-type", "CONTENT_TYPE"), ("content-length", "CONTENT_LENGTH")):
        if environ.get(key):
            headers[name] = environ[key]
    return headers


def new_id() -> str:
    """An id for a request that brought none; nobody needs to be kept from guessing it."""
    return f"req_{random.getrandbits(96):024x}"
