"""`Parking`: where requests wait, in the gateway, until a child has a slot for them; bounded for each model.

A child gets no more requests at a time than it has slots, so what waits does so here, in the order of its `FairQueue`,
and not in the engine, where the first to come would be the first served whoever it is. While a slot is free all of
this is one number up and down. With several gateway workers each has its share of the slots, and its own queue.
"""

import math
from collections.abc import Callable, Iterable
from typing import Final

from blazar.errors import QueueFull, QueueTimeout, QueueYielded, Saturated
from blazar.proxy import greens
from blazar.proxy.crowd import Crowd
from blazar.proxy.exchange import Exchange, Usage
from blazar.proxy.fair_queue import FairQueue, Ticket
from blazar.telemetry.metrics import Metrics
from blazar.transport import Endpoint
from blazar.units import format_duration

BATCHES: Final = "\0batches"
"""The line of requests for which nobody waits; no API key has such a name."""
BATCH_SHARE: Final = 1 / 16
"""Their weight together, against that of the lightest API key."""
PROMPT_TOKENS: Final = 20
"""Tokens of a prompt that cost as much as one of an answer: engines read so many times faster than they write."""
LONGEST_PAUSE: Final = 60.0
"""Seconds that a refused client is asked to wait at most; the clients people have ignore more."""
POSITION: Final = "X-Blazar-Queue-Position"


class ChildLost(Exception):
    """The child for whose slot was waited is gone; another one has to be found."""


class Lot:
    """The slots of one child, as far as they are this worker's."""

    def __init__(self, slots: int, clock: Callable[[], float]) -> None:
        self.slots = slots
        self._clock = clock
        self.taken = 0
        self.queue = FairQueue()
        self.held = 1.0
        """Seconds for which a slot was held of late."""

    def take(self) -> bool:
        """Take a free slot, if there is one; nobody waits then."""
        if self.taken >= self.slots:
            return False
        self.taken += 1
        return True

    def give_back(self, exchange: Exchange, charged: float = 0.0) -> None:
        """The slot is free again, and goes to whoever is next. `charged` is what was counted for it when it was got."""
        self.taken -= 1
        if self.queue.remembers:
            self.queue.settle(key_of(exchange), cost(exchange.usage), charged)
            if exchange.sent:
                self.held += (self._clock() - exchange.sent - self.held) / 4
            self._hand_out()

    def park(self, ticket: Ticket) -> None:
        self.queue.push(ticket)

    def leave(self, ticket: Ticket) -> None:
        """One that was parked does not want its slot any more, whether it has it or not."""
        if not self.queue.remove(ticket) and ticket.granted:
            self.queue.undo(ticket)
            self.taken -= 1
            self._hand_out()

    def resize(self, slots: int) -> None:
        self.slots = slots
        self._hand_out()

    def close(self) -> None:
        """The child is gone: who waits looks for another."""
        while self.queue:
            ticket = self.queue.pop()
            ticket.gone = True
            ticket.wake()

    def pause(self) -> float:
        """Seconds until a slot becomes free, by how long they were held of late."""
        return min(max(1.0, self.held / self.slots), LONGEST_PAUSE)

    def _hand_out(self) -> None:
        while self.queue and self.taken < self.slots:
            ticket = self.queue.pop()
            ticket.granted = True
            self.taken += 1
            ticket.wake()
        if not self.taken and self.queue.remembers:
            self.queue.forget()


class Parking:
    """`limit` is how many may wait for one model, for a slot or for its load; `patience` the seconds after which those
    who wait for a slot are refused; `lightest` tells the least weight of an API key."""

    def __init__(self, limit: int, patience: float, lightest: Callable[[], float], clock: Callable[[], float],
                 metrics: Metrics) -> None:
        self._limit = limit
        self._patience = patience
        self._lightest = lightest
        self._clock = clock
        self._metrics = metrics
        self._lots: dict[str, Lot] = {}
        self._crowds: dict[str, Crowd] = {}
        self._workers = 1

    def lot(self, endpoint: Endpoint) -> Lot:
        """The slots of a child."""
        found = self._lots.get(endpoint.child_id)
        if found is None:
            found = self._lots[endpoint.child_id] = Lot(self._share(endpoint), self._clock)
        return found

    def waiting(self) -> dict[str, int]:
        """How many wait now, by model."""
        return {model: len(crowd) for model, crowd in self._crowds.items()}

    def enter(self, exchange: Exchange, what: str) -> None:
        """One more waits, for a `slot` or a `load`; `leave` follows. Raises QueueFull."""
        crowd = self._crowds.get(exchange.model)
        if crowd is None:
            crowd = self._crowds[exchange.model] = Crowd()
        line = self._line(exchange)
        if len(crowd) >= self._limit:
            self._make_room(exchange, crowd, *line)
        crowd.add(exchange, *line)
        exchange.waits = what

    def leave(self, exchange: Exchange) -> None:
        self._crowds[exchange.model].remove(exchange, key_of(exchange))
        exchange.waits = ""

    def _make_room(self, exchange: Exchange, crowd: Crowd, key: str, weight: float) -> None:
        self._metrics.refused.add(exchange.model, "full")
        other, pause = crowd.give_way(key, weight), self._pause(exchange)
        model, wait = exchange.model, format_duration(pause)
        if other is None:
            raise self._busy(exchange, QueueFull(model=model, count=len(crowd), wait=wait, retry_after=pause))
        other.end(self._busy(other, QueueYielded(model=model, limit=self._limit, wait=wait, retry_after=pause)))

    def too_late(self, exchange: Exchange, seconds: float) -> QueueTimeout:
        """What is told to one that has waited so long."""
        self._metrics.refused.add(exchange.model, "timeout")
        pause = self._pause(exchange)
        error = QueueTimeout(model=exchange.model, limit=format_duration(seconds), wait=format_duration(pause),
                             retry_after=pause)
        self._busy(exchange, error)
        return error

    def wait(self, exchange: Exchange, lot: Lot) -> Ticket:
        """Until a slot of `lot` is the exchange's own, for as long as its client is there.

        Raises QueueFull, QueueTimeout, ClientGone, whatever the exchange was ended by, and ChildLost.
        """
        event = greens.Event()
        ticket = Ticket(*self._line(exchange), since=exchange.started, wake=event.set)
        self.enter(exchange, "slot")
        try:
            lot.park(ticket)
            self._tell(exchange, lot.queue.position(ticket))
            exchange.interrupt = event.set
            exchange.sink.watch(event.set)
            if exchange.ended_by is None:
                event.wait(max(0.0, self._patience - exchange.queue_ns / 1e9))  # less what it has waited elsewhere
            self._check(exchange, ticket)
            return ticket
        except BaseException:
            lot.leave(ticket)
            raise
        finally:
            exchange.sink.unwatch()
            exchange.interrupt = None
            self.leave(exchange)

    def refresh(self, endpoints: Iterable[Endpoint], workers: int, drains: Callable[[str], bool]) -> None:
        """To be called about once a second, with the children there are, how many gateway workers share them, and
        which others end only once they have served those who wait."""
        self._workers = workers
        living = {endpoint.child_id: endpoint for endpoint in endpoints}
        for child_id, lot in list(self._lots.items()):
            if child_id in living:
                lot.resize(self._share(living[child_id]))
            elif not lot.taken and not lot.queue:
                del self._lots[child_id]
            elif not drains(child_id):
                lot.close()

    def _share(self, endpoint: Endpoint) -> int:
        return max(1, math.ceil(endpoint.slots / self._workers))

    def _line(self, exchange: Exchange) -> tuple[str, float]:
        if exchange.background:
            return BATCHES, self._lightest() * BATCH_SHARE
        return key_of(exchange), 1.0 if exchange.api_key is None else exchange.api_key.limits.weight

    def _check(self, exchange: Exchange, ticket: Ticket) -> None:
        """Why there was no more waiting: returns when there is a slot."""
        if exchange.sink.gone:
            raise exchange.sink.departed()
        if exchange.ended_by is not None:
            raise exchange.ended_by
        if ticket.gone:
            raise ChildLost
        if not ticket.granted:
            raise self.too_late(exchange, self._patience)

    def _pause(self, exchange: Exchange) -> float:
        lot = self._lots.get(exchange.endpoint.child_id) if exchange.endpoint is not None else None
        return lot.pause() if lot is not None else 1.0

    @staticmethod
    def _tell(exchange: Exchange, position: int) -> None:
        """A client is told once, where it stood when it came."""
        if all(name != POSITION for name, _ in exchange.headers):
            exchange.headers.append((POSITION, str(position)))

    @staticmethod
    def _busy(exchange: Exchange, error: Saturated) -> Saturated:
        error.status = exchange.dialect.busy
        return error


def key_of(exchange: Exchange) -> str:
    """Whose line an exchange stands in."""
    if exchange.background:
        return BATCHES
    return "" if exchange.api_key is None else exchange.api_key.name


def cost(usage: Usage | None) -> float:
    """What a request has cost, in tokens of an answer."""
    if usage is None:
        return 1.0
    return max(1.0, usage.completion_tokens + (usage.prompt_tokens - usage.cached_tokens) / PROMPT_TOKENS)
