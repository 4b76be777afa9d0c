"""Stage `singleflight`: chats that are the same to the byte, asked at the same time and not as streams, are answered by
one run.

The first leads, the others follow: each waits for the leader's answer for at most `BOUND` seconds and then goes its own
way. It has counted as a request of its API key by then; the tokens are the leader's. Nothing is shared between keys.
"""

import time
from typing import Any, Final

from blazar.proxy import greens
from blazar.proxy.exchange import Exchange, Reply, send_whole
from blazar.proxy.flight import Flight, Landing
from blazar.proxy.pipeline import Forward
from blazar.proxy.receipts import COALESCED, headers_for, overhead
from blazar.telemetry.metrics import Metrics

BOUND: Final = 5.0
"""Seconds for which one request waits for the answer to another."""
CHATS: Final = frozenset({"chat", "messages"})
"""Operations that are shared."""
SHORT: Final = 4096
"""Bytes of a body that is told apart as a whole."""
LONGEST: Final = 4 << 20
"""Bytes of the longest body that is compared."""
ASKS_FOR_ITS_OWN: Final = "x-blazar-cache"
"""A header whose sender wants to say itself where its answer comes from."""


class SingleFlight:
    def __init__(self, is_on: bool, metrics: Metrics) -> None:
        self._is_on = is_on
        self._metrics = metrics
        self._leaders: dict[tuple[Any, ...], Exchange] = {}
        """By what is told apart fast. Nothing more is looked at before two have that in common."""

    def __call__(self, exchange: Exchange, forward: Forward) -> Reply:
        if exchange.stream or not self._is_on:
            return forward(exchange)
        body, owner = exchange.body, exchange.api_key
        digest = None if owner is None else owner.digest
        # Of a long body its end: to look at every byte, as a key does, would take as long as to send it.
        key = (digest, body) if len(body) <= SHORT else (digest, len(body), body[-SHORT:])
        if key in self._leaders:
            landing = self._follow(key, exchange)
            if landing is not None:
                return self._give(exchange, landing)
        self._leaders[key] = exchange
        error: BaseException | None = None
        try:
            reply = forward(exchange)
            error = reply.error
        except BaseException as raised:
            error = raised
            raise
        finally:
            if self._leaders.get(key) is exchange:
                del self._leaders[key]
            flight = exchange.sink
            if isinstance(flight, Flight):
                flight.land(error)
        if isinstance(flight, Flight) and flight.lost:
            raise flight.departed()
        return reply

    def _follow(self, key: tuple[Any, ...], exchange: Exchange) -> Landing | None:
        """What became of the leader; None when this one is to go its own way."""
        until = time.monotonic() + BOUND
        while (left := until - time.monotonic()) > 0:
            leader = self._leaders.get(key)
            flight = Flight.of(leader) if leader is not None and _are_one(leader, exchange) else None
            if flight is None:
                return None
            landing = _waited(exchange, flight, left)
            if landing is not None:
                return landing
        return None

    def _give(self, exchange: Exchange, landing: Landing) -> Reply:
        self._metrics.coalesced.add(exchange.dialect.name, exchange.model)
        exchange.coalesced = True
        if landing.error is not None:
            raise landing.error
        send_whole(exchange.sink, landing.status, [*headers_for(exchange, landing.status), overhead(exchange),
                                                   COALESCED], landing.body, landing.content_type)
        return Reply(landing.status)


def _are_one(leader: Exchange, exchange: Exchange) -> bool:
    """Whether their answers may be the same one: by the whole body, and what the headers ask for."""
    return (_shares(leader) and _shares(exchange) and leader.dialect.name == exchange.dialect.name
            and leader.operation == exchange.operation and leader.model == exchange.model
            and leader.knobs == exchange.knobs and leader.body == exchange.body)


def _shares(exchange: Exchange) -> bool:
    """Not one that needs an answer of its own, such as what is kept for its client under an id of its own, or of a
    batch, for which nobody else should wait."""
    return not (exchange.operation not in CHATS or len(exchange.body) > LONGEST or exchange.keep is not None
                or exchange.background or exchange.payload.get("store") or ASKS_FOR_ITS_OWN in exchange.knobs)


def _waited(exchange: Exchange, flight: Flight, seconds: float) -> Landing | None:
    """Wait for the flight as long as the exchange's own client does."""
    if exchange.ended_by is not None:
        raise exchange.ended_by
    with greens.interrupter(exchange.reason) as interrupt:
        exchange.interrupt = interrupt
        exchange.sink.watch(interrupt)
        try:
            return flight.wait(seconds)
        finally:
            exchange.sink.unwatch()
            exchange.interrupt = None
