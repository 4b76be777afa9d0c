"""Signs of life for clients of streams whose answer has not begun: a model is being loaded, or a long prompt read.

Proxies and clients give up on a connection that is silent for a minute or so. What is sent instead is what the parsers
of each dialect pass over. The head leaves with the first sign, so an error after it is told inside the stream.
"""

from collections.abc import Iterable

from blazar.proxy.exchange import Exchange

USUAL = 15.0
"""Seconds between two signs, where `sse_ping_interval` does not say."""


class Heartbeat:
    """`setting` is `sse_ping_interval`: seconds, none below 1; None = the usual."""

    def __init__(self, setting: int | None) -> None:
        self._every = USUAL if setting is None else float(setting)

    def beat(self, now: float, exchanges: Iterable[Exchange]) -> None:
        """To be called about once a second, with those under way and the time of CLOCK_MONOTONIC."""
        if self._every <= 0:
            return
        for exchange in exchanges:
            waits = exchange.stream and (exchange.sink.early or not exchange.sink.started)
            if waits and now - max(exchange.started, exchange.beaten) >= self._every:
                exchange.beaten = now
                exchange.sink.beat(_headers(exchange), exchange.dialect.heartbeat(exchange))


def _headers(exchange: Exchange) -> list[tuple[str, str]]:
    return [*exchange.headers, ("Content-Type", exchange.dialect.stream_type), ("Cache-Control", "no-cache")]
