"""`Ledger`: the counts of the gateway in one memory: leases of children, the exchanges under way, API keys' accounts.

A lease is a held slot. A child that drains takes no new lease, and its drain is acknowledged when the last one is
back. Time is CLOCK_MONOTONIC, which the supervisor on the same machine shares.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from blazar.proxy.accounts import Accounts
from blazar.proxy.exchange import Exchange
from blazar.proxy.finished import Finished

KEPT: Final = 600.0
"""Seconds after its last use for which an idle child is still reported."""


@dataclass
class _Count:
    in_flight: int = 0
    last_used: float = 0.0


@dataclass
class _Drain:
    since: float
    acknowledge: list[Callable[[], None]] = field(default_factory=list)


class Ledger:
    """Who uses which child. Nothing in it waits."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = self.now = clock
        self.accounts = Accounts(clock)
        self.finished = Finished()
        self._counts: dict[str, _Count] = {}
        self._drains: dict[str, _Drain] = {}
        self._lost: set[str] = set()
        self._exchanges: dict[int, Exchange] = {}
        self._closing: Exception | None = None

    # -- leases ------------------------------------------------------------------------------------

    def take(self, child_id: str, confirmed_at: float | None = None) -> bool:
        """Take a lease; False when the child drains.

        `confirmed_at` is when the supervisor was asked about this child, which it has since called ready: that
        ends a drain which began earlier.
        """
        if confirmed_at is not None:
            self._lost.discard(child_id)
        if child_id in self._drains:
            if confirmed_at is None or self._drains[child_id].since >= confirmed_at:
                return False
            del self._drains[child_id]
        count = self._counts.get(child_id)
        if count is None:
            count = self._counts[child_id] = _Count()
        count.in_flight += 1
        count.last_used = self._clock()
        return True

    def give_back(self, child_id: str) -> None:
        count = self._counts[child_id]
        count.in_flight -= 1
        count.last_used = self._clock()
        if child_id in self._drains and count.in_flight == 0:
            self._acknowledge(self._drains[child_id])

    def drain(self, child_id: str, acknowledge: Callable[[], None]) -> None:
        """Refuse new leases of this child and call `acknowledge` once none is out."""
        drain = self._drains.setdefault(child_id, _Drain(self._clock()))
        drain.acknowledge.append(acknowledge)
        if self._counts.get(child_id, _Count()).in_flight == 0:
            self._acknowledge(drain)

    def drains(self, child_id: str) -> bool:
        """Whether the child is to go once its leases are back, and serves those who have one until then."""
        return child_id in self._drains and child_id not in self._lost

    def lose(self, child_id: str) -> None:
        """The child is ended, and serves nobody any more, leases or not."""
        self._lost.add(child_id)

    def forget(self, living: set[str]) -> None:
        """Drop what is kept of children that are gone: idle, and not among `living`."""
        now = self._clock()
        for child_id, count in list(self._counts.items()):
            if child_id not in living and count.in_flight == 0 and now - count.last_used > KEPT:
                del self._counts[child_id]
                self._drains.pop(child_id, None)
                self._lost.discard(child_id)

    @staticmethod
    def _acknowledge(drain: _Drain) -> None:
        waiting, drain.acknowledge = drain.acknowledge, []
        for acknowledge in waiting:
            acknowledge()

    # -- what others ask ---------------------------------------------------------------------------

    def leases(self) -> dict[str, int]:
        """Leases now out, by child: what a reconnecting gateway declares."""
        return {child_id: count.in_flight for child_id, count in self._counts.items() if count.in_flight}

    def children(self) -> dict[str, dict[str, Any]]:
        return {child_id: {"in_flight": count.in_flight, "last_used": count.last_used}
                for child_id, count in self._counts.items()}

    def use_of(self, child_id: str) -> dict[str, Any]:
        """In-flight count and last use of one child; zeros when it was never used."""
        count = self._counts.get(child_id, _Count())
        return {"in_flight": count.in_flight, "last_used": count.last_used}

    def last_use(self) -> float | None:
        """When a child was last used; None while one is, or before the first."""
        counts = self._counts.values()
        if self._exchanges or not counts or any(count.in_flight for count in counts):
            return None
        return max(count.last_used for count in counts)

    # -- exchanges under way -----------------------------------------------------------------------

    def enter(self, exchange: Exchange) -> None:
        """Note an exchange as under way; raises the error that `end_all` was given, once it was."""
        if self._closing is not None:
            raise self._closing
        self._exchanges[id(exchange)] = exchange

    def leave(self, exchange: Exchange) -> None:
        self._exchanges.pop(id(exchange), None)

    def exchanges(self) -> list[Exchange]:
        return list(self._exchanges.values())

    def under_way(self) -> int:
        return len(self._exchanges)

    def end_all(self, error: Exception) -> None:
        """End every exchange with `error`, and refuse those that come later."""
        self._closing = error
        for exchange in self.exchanges():
            exchange.end(error)
