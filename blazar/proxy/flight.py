"""`Flight`: one answer for several identical requests.

It stands in for the sink of the request that is answered, the leader, from the moment when the first other one joins.
What passes is gathered for those who follow. The leader's client may leave: the answer is made all the same, for as
long as anybody follows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from blazar.errors import BlazarError, Saturated
from blazar.proxy.around import AroundSink
from blazar.proxy.exchange import ClientGone, Exchange
from blazar.proxy.greens import Event
from blazar.proxy.wire.framing import ChunkedFraming

MOST: Final = 8 << 20
"""Bytes of the longest answer that is gathered; of a longer one those who follow have none."""


@dataclass(frozen=True)
class Landing:
    """How a flight ended: a whole answer, or the `error` that concerns whoever asked."""

    status: int = 0
    content_type: str = ""
    body: bytes = b""
    error: BlazarError | None = None


class Flight(AroundSink):
    """The leader's sink while others follow."""

    started: bool = False  # of the answer, whether or not the leader's client is there to get it
    status: int = 0

    def __init__(self, leader: Exchange) -> None:
        super().__init__(leader.sink)
        self._leader = leader
        self._followers = 0
        self._landed = Event()
        self._landing: Landing | None = None
        self._on_gone: Callable[[], None] | None = None
        self._framing: ChunkedFraming | None = None
        self._content_type = ""
        self._body = bytearray()
        self._whole = False
        self._is_kept = True
        self.lost = False
        """The leader's client went without its answer."""
        leader.sink = self
        if leader.interrupt is not None:  # somebody waits for the child, or for its load, and watches the client
            self._sink.unwatch()
            self.watch(leader.interrupt)

    @classmethod
    def of(cls, leader: Exchange) -> "Flight | None":
        """The leader's flight, for one more to follow; None when its answer has begun, or its client has gone alone."""
        sink = leader.sink
        if sink.started or sink.gone:
            return None
        return sink if isinstance(sink, cls) else cls(leader)

    # -- for those who follow ----------------------------------------------------------------------

    def wait(self, seconds: float) -> Landing | None:
        """How it ended; None when there is nothing that concerns who waits: try again, unless the time is up."""
        self._followers += 1
        try:
            self._landed.wait(seconds)
            return self._landing
        finally:
            self._followers -= 1
            if not self._landed.is_set() and self.gone and self._on_gone is not None:
                self._on_gone()

    @property
    def landed(self) -> bool:
        return self._landed.is_set()

    def land(self, error: BaseException | None) -> None:
        """The leader's exchange is over, with that error if any: tell those who wait, unless it is the leader's alone.
        That it has waited too long for a slot says nothing of those who came later."""
        self._leader.sink = self._sink
        if error is None and self._whole and self._is_kept:
            self._landing = Landing(self.status, self._content_type, bytes(self._body))
        elif isinstance(error, BlazarError) and not isinstance(error, Saturated) and self._leader.ended_by is None:
            self._landing = Landing(error=error)
        self._landed.set()

    # -- the sink ----------------------------------------------------------------------------------

    @property
    def gone(self) -> bool:
        return self._sink.gone and not self._followers

    def start(self, status: int, headers: list[tuple[str, str]], *, raw_chunked: bool = False) -> None:
        self.started, self.status = True, status
        self._framing = ChunkedFraming() if raw_chunked else None
        self._content_type = dict(headers).get("Content-Type", "application/json")
        self._pass(lambda: self._sink.start(status, headers, raw_chunked=raw_chunked))

    def beat(self, headers: list[tuple[str, str]], data: bytes) -> None:
        """It is no stream."""

    def write(self, data: bytes) -> None:
        payload = self._framing.feed(data) if self._framing is not None else data
        if self._is_kept:
            self._body += payload
            if len(self._body) > MOST:
                self._is_kept = False
                self._body.clear()
        self._pass(lambda: self._sink.write(data))

    def flush(self) -> None:
        self._pass(self._sink.flush)

    def finish(self) -> None:
        self._whole = True
        self._pass(self._sink.finish)

    def abort(self) -> None:
        self._sink.abort()

    def watch(self, on_gone: Callable[[], None]) -> None:
        self._on_gone = on_gone
        self._sink.watch(self._left)

    def unwatch(self) -> None:
        self._on_gone = None
        self._sink.unwatch()

    def _left(self) -> None:
        if not self._followers and self._on_gone is not None:
            self._on_gone()

    def _pass(self, send: Callable[[], None]) -> None:
        """Send something to the leader's client, if it is there; it may go without the others losing anything."""
        if not (self.lost or self._sink.gone):
            try:
                send()
                return
            except ClientGone:
                if not self._followers:
                    raise
        self.lost = True
        if not self._followers:
            raise self._sink.departed()
