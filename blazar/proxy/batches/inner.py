"""`Inner`: has requests answered for which no client waits, those of batches, by the resources that serve clients.

Its answer is gathered in memory. What happens to be refused for the moment only (a limit per minute, a daemon that
stops) is told apart from answers, since the same request may be sent again.
"""

import io
import logging
from collections.abc import Callable
from typing import Any, Final

from blazar.errors import (
    BlazarError,
    ChildFailed,
    DatabaseLocked,
    KeyGone,
    QuotaExceeded,
    Saturated,
    ShuttingDown,
    SupervisorGone,
)
from blazar.proxy.auth import ApiKey
from blazar.proxy.batches.task import Outcome, Question
from blazar.proxy.exchange import ClientGone, Sink
from blazar.proxy.gateway import Gateway
from blazar.proxy.request import Request, Terms
from blazar.proxy.routes import Route, methods, resource_of
from blazar.proxy.shelf import owner_of
from blazar.proxy.wire.framing import ChunkedFraming
from blazar.proxy.wire.lean import FIELDS
from blazar.units import format_bytes

MOST: Final = 64 << 20
"""Bytes of the longest answer that is taken."""
PASSING: Final = (QuotaExceeded, Saturated, ShuttingDown, SupervisorGone, DatabaseLocked)
"""Refusals after which the same request may fare better."""
PAUSE: Final = 2.0
"""Seconds until the next attempt where the refusal does not say."""

log = logging.getLogger("blazar.proxy")


class Inner:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def ask(self, question: Question) -> Outcome:
        """The answer to one request, an error as its dialect writes it. Never raises."""
        gateway, sink = self._gateway, BufferSink()
        route = methods(question.path)["POST"]
        request = Request(_environ(question), Terms(gateway.max_body, pace=gateway.pace), sink=sink)
        request.route = route
        try:
            request.api_key = self._key(question.owner)
            resource_of(route)(gateway, request, route)
            if sink.whole:
                return Outcome(sink.status, bytes(sink.body))
            raise ShuttingDown if gateway.draining else ChildFailed(model="this request", reason="its answer broke off")
        except Exception as error:
            return self._refused(question, route, error)

    def _refused(self, question: Question, route: Route, error: Exception) -> Outcome:
        if isinstance(error, ClientGone):
            error = ShuttingDown()
        if not isinstance(error, BlazarError):
            log.error("request %s of a batch failed: %s", question.id, question.path, exc_info=error)
        status, body = self._gateway.dialects[route.dialect].error(error)
        again = (error.retry_after or PAUSE) if isinstance(error, PASSING) else None
        return Outcome(status, body, again)

    def _key(self, owner: str) -> ApiKey | None:
        """The API key whose batch it is. Raises KeyGone when it is no longer configured."""
        keys = self._gateway.keys
        if not keys.active:
            return None
        for key in keys.all():
            if owner_of(key) == owner:
                return key
        raise KeyGone


class BufferSink(Sink):
    """A sink that gathers one answer; `whole` once it has ended cleanly."""

    started: bool = False
    gone: bool = False
    early: bool = False
    closing: bool = False
    status: int = 0

    def __init__(self, most: int = MOST) -> None:
        self.started = self.gone = self.early = self.closing = self.unread = self.old = self.whole = False
        self.status = 0
        self.body = bytearray()
        self._most = most
        self._framing: ChunkedFraming | None = None

    def start(self, status: int, headers: list[tuple[str, str]], *, raw_chunked: bool = False) -> None:
        self.started, self.status = True, status
        self._framing = ChunkedFraming() if raw_chunked else None

    def beat(self, headers: list[tuple[str, str]], data: bytes) -> None:
        """Nobody waits for signs of life."""

    def write(self, data: bytes) -> None:
        self.body += data if self._framing is None else self._framing.feed(data)
        if len(self.body) > self._most:
            raise ChildFailed(model="this request", reason=f"its answer is over {format_bytes(self._most)}")

    def peer(self) -> str:
        return "a batch"

    def direct(self) -> Any:
        return None

    def departed(self) -> ClientGone:
        return ClientGone()

    def finish(self) -> None:
        self.whole = True

    def abort(self) -> None:
        self.whole = False

    def watch(self, on_gone: Callable[[], None]) -> None:
        """Nobody can leave."""

    def unwatch(self) -> None:
        """As `watch`."""


def _environ(question: Question) -> dict[str, Any]:
    return {"REQUEST_METHOD": "POST", "PATH_INFO": question.path, "SERVER_PROTOCOL": "HTTP/1.1",
            "CONTENT_LENGTH": str(len(question.body)), "wsgi.input": io.BytesIO(question.body),
            FIELDS: {**question.headers, "x-request-id": question.id}}
