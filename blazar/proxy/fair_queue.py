"""`FairQueue`: who of those that wait for a slot of one child is next. Pure: no clock is read, and nothing waits in it.

Each API key has a virtual clock. What its requests cost, divided by its weight, moves the clock on, and the key whose
clock is furthest behind has the next turn: so keys get tokens in the proportion of their weights, however many requests
each has waiting. Within a key the oldest request comes first. What a request costs is known only at its end; until then
it counts as much as those of its key did of late.

A clock that is far ahead must not lock its key out. So no key is passed over more often than its share of the turns
explains: with weights 3 and 1, whose requests are alike, four turns at most.
"""

import math
from bisect import insort
from collections.abc import Callable
from dataclasses import dataclass, field

MEMORY = 8
"""Requests over which a key's cost is averaged."""


@dataclass(eq=False, slots=True)
class Ticket:
    """One request that waits. `since` is when it came, in seconds; `wake` is called when `granted` or `gone` is set."""

    key: str
    weight: float
    since: float
    wake: Callable[[], None] = field(repr=False)
    granted: bool = False
    """It has a slot."""
    charged: float = 0.0
    """What was counted for it when it got that."""
    gone: bool = False
    """The child is gone, and its slots with it."""


class _Line:
    """Those of one key who wait, the oldest first."""

    __slots__ = ("clock", "cost", "passed", "waiting", "weight")

    def __init__(self, weight: float) -> None:
        self.weight = weight
        self.clock = 0.0
        self.cost = 0.0
        """Of its requests of late, on average; 0 when that is not known yet."""
        self.passed = 0
        """Turns that others had while it waited."""
        self.waiting: list[Ticket] = []


class FairQueue:
    def __init__(self) -> None:
        self._lines: dict[str, _Line] = {}
        self._now = 0.0
        """The virtual time: the earliest clock of those that waited, at the last turn."""
        self._size = 0
        self.remembers = False
        """Whether anybody waited since `forget`."""

    def __len__(self) -> int:
        return self._size

    def push(self, ticket: Ticket) -> None:
        line = self._lines.get(ticket.key)
        if line is None:
            line = self._lines[ticket.key] = _Line(ticket.weight)
            self.remembers = True
        line.weight = ticket.weight  # it may have been changed since
        if not line.waiting:
            line.clock = max(line.clock, self._now)  # what it did not use while it was away is not saved up
            line.passed = 1  # the turn under way
        insort(line.waiting, ticket, key=_age)
        self._size += 1

    def remove(self, ticket: Ticket) -> bool:
        """Take out one that waits no longer; whether it was there."""
        line = self._lines.get(ticket.key)
        if line is None or ticket not in line.waiting:
            return False
        line.waiting.remove(ticket)
        self._size -= 1
        return True

    def pop(self) -> Ticket:
        """The one whose turn it is."""
        waiting = self._waiting()
        chosen = self._next(waiting)
        self._now = max(self._now, min(line.clock for line in waiting))
        for line in waiting:
            line.passed += 1
        chosen.passed = 0
        self._size -= 1
        ticket = chosen.waiting.pop(0)
        ticket.charged = self._cost(chosen)
        chosen.clock += ticket.charged / chosen.weight
        return ticket

    def settle(self, key: str, cost: float, charged: float) -> None:
        """A request of this key has ended, and has cost so much, for which `charged` was counted when it began."""
        line = self._lines.get(key)
        if line is not None:
            line.clock += (cost - charged) / line.weight
            line.cost += (cost - line.cost) / MEMORY if line.cost else cost

    def undo(self, ticket: Ticket) -> None:
        """One that has a slot gives it back unused."""
        line = self._lines.get(ticket.key)
        if line is not None:
            line.clock -= ticket.charged / line.weight

    def forget(self) -> None:
        """Nobody waits and nobody is served: whoever comes next begins anew."""
        self._lines.clear()
        self.remembers = False
        self._now = 0.0

    def position(self, ticket: Ticket) -> int:
        """How many turns away one that waits is, from 1, if nobody comes or leaves and requests cost what they did."""
        own = self._lines[ticket.key]
        place = own.waiting.index(ticket)
        at = own.clock + place * self._step(own)
        return 1 + place + sum(self._ahead(line, at, ticket.since) for line in self._waiting() if line is not own)

    def _ahead(self, line: _Line, at: float, since: float) -> int:
        """How many of the line come before one who came at `since`, and whose own clock says `at` by then."""
        turns = (at - line.clock) / self._step(line)
        older = line.waiting[0].since < since
        return min(len(line.waiting), max(0, math.floor(turns) + 1 if older else math.ceil(turns)))

    def _waiting(self) -> list[_Line]:
        return [line for line in self._lines.values() if line.waiting]

    def _next(self, waiting: list[_Line]) -> _Line:
        if len(waiting) == 1:
            return waiting[0]
        weights = sum(line.weight for line in waiting)
        least = min(self._cost(line) for line in waiting)
        overdue = [line for line in waiting if line.passed >= self._patience(line, weights, least)]
        if overdue:
            return max(overdue, key=lambda line: line.passed / self._patience(line, weights, least))
        return min(waiting, key=lambda line: (line.clock, line.waiting[0].since))

    def _patience(self, line: _Line, weights: float, least: float) -> int:
        """Turns of others after which the line is next in any case: its share of the turns, and where its own requests
        cost several times as much as those of others, as many times more."""
        return math.ceil(weights / line.weight - 1e-9) * max(1, int(self._cost(line) / least))

    def _cost(self, line: _Line) -> float:
        """Of the line's usual request; as long as none has ended, that of others."""
        return line.cost or max((other.cost for other in self._lines.values()), default=0.0) or 1.0

    def _step(self, line: _Line) -> float:
        return self._cost(line) / line.weight


def _age(ticket: Ticket) -> float:
    return ticket.since
