"""The gateway workers as the supervisor knows them: their links, the leases they hold, and how to drain a child.

A lease belongs to a worker's link. When the link breaks, the worker may come back and declare its leases; they are
taken for returned once it has died, or 5 s have passed.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from blazar.control import Link, Message
from blazar.supervisor import processes
from blazar.supervisor.loop import Loop

log = logging.getLogger(__name__)

RECONNECT = 5.0
SHARES = 30.0
"""Seconds after its last request for which a worker keeps its share of the slots."""
USAGE_LIMIT = 1.0
"""Seconds a worker has for telling its usage; after them, what it last told is used."""
RELIEF_LIMIT = 5.0
"""Seconds a worker has for closing its end of the listener."""


@dataclass
class Use:
    """How much a child is used, as one worker counts it; `last_used` is CLOCK_MONOTONIC."""

    in_flight: int = 0
    last_used: float = 0.0


@dataclass(eq=False)
class Worker:
    link: Link
    pid: int
    last_beat: float
    uses: dict[str, Use] = field(default_factory=dict)


class Workers:
    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._workers: dict[Link, Worker] = {}
        self._departed: dict[Link, Worker] = {}
        self._last_used: dict[str, float] = {}

    def join(self, link: Link, pid: int, leases: Any) -> None:
        now = self._loop.now()
        worker = Worker(link, pid, now)
        self._departed = {gone: other for gone, other in self._departed.items() if other.pid != pid}
        for child_id in leases or ():
            worker.uses[str(child_id)] = Use(1, now)
        self._workers[link] = worker

    def leave(self, link: Link) -> bool:
        """The link is closed; True when it was a worker's. Its leases count for a while yet."""
        worker = self._workers.pop(link, None)
        if worker is None:
            return False
        self._departed[link] = worker
        self._loop.later(RECONNECT, self._departed.pop, link, None)
        return True

    def all(self) -> list[Worker]:
        return list(self._workers.values())

    def beat(self, link: Link) -> None:
        if link in self._workers:
            self._workers[link].last_beat = self._loop.now()

    def note(self, kind: str, **fields: Any) -> None:
        for link in list(self._workers):
            link.note(kind, **fields)

    def tell_others(self, link: Link, kind: str, **fields: Any) -> None:
        """Send a note to all workers but the one at `link`; while gunicorn replaces a worker there are two."""
        for other in list(self._workers):
            if other is not link:
                other.note(kind, **fields)

    def report(self, link: Link, children: dict[str, Any]) -> None:
        """Take down what a worker tells of its children."""
        worker = self._workers.get(link)
        if worker is None:
            return
        worker.uses = {child_id: Use(int(use.get("in_flight") or 0), float(use.get("last_used") or 0.0))
                       for child_id, use in children.items()}
        for child_id, use in worker.uses.items():
            self._last_used[child_id] = max(use.last_used, self._last_used.get(child_id, 0.0))

    def use_of(self, *child_ids: str) -> Use:
        """The use of a child, which may have several ids, over all workers, as last told."""
        workers = [*self._workers.values(), *self._departed.values()]
        in_flight = sum(worker.uses[child_id].in_flight for worker in workers for child_id in child_ids
                        if child_id in worker.uses)
        return Use(in_flight, max((self._last_used.get(child_id, 0.0) for child_id in child_ids), default=0.0))

    def sharing(self) -> int:
        """How many workers use children, or did a moment ago: each has its share of the slots. 1 at least."""
        recent = self._loop.now() - SHARES
        return max(1, sum(any(use.in_flight or use.last_used > recent for use in worker.uses.values())
                          for worker in self._workers.values()))

    def keep_only(self, child_ids: set[str]) -> None:
        """Forget when children that are gone were last used."""
        self._last_used = {child_id: at for child_id, at in self._last_used.items() if child_id in child_ids}

    def refresh(self, then: Callable[[], None]) -> None:
        """Ask all workers for their usage; `then` follows when they have told, or after USAGE_LIMIT."""
        gathering = _Gathering(self._loop, set(self._workers), then)
        timer = self._loop.later(USAGE_LIMIT, gathering.give_up)
        gathering.timer = timer
        for link in list(self._workers):
            def told(answer: Message | None, link: Link = link) -> None:
                self._loop.post(self._told, gathering, link, answer)
            link.ask_later("usage", told)

    def _told(self, gathering: "_Gathering", link: Link, answer: Message | None) -> None:
        if answer is not None and "error" not in answer:
            self.report(link, answer.get("children") or {})
        gathering.got(link)

    def gather(self, kind: str, then: Callable[[list[Message]], None], **fields: Any) -> None:
        """Ask all workers the same; `then` gets the answers as soon as all have come, or after USAGE_LIMIT."""
        answers: list[Message] = []
        gathering = _Gathering(self._loop, set(self._workers), lambda: then(answers))
        gathering.timer = self._loop.later(USAGE_LIMIT, gathering.give_up)
        for link in list(self._workers):
            def heard(answer: Message | None, link: Link = link) -> None:
                self._loop.post(self._heard, gathering, link, answers, answer)
            link.ask_later(kind, heard, **fields)

    def relieve(self, workers: list[Worker], grace: float, then: Callable[[], None]) -> None:
        """Tell workers that others have taken over; `then` follows when they take no connections any more, or after
        RELIEF_LIMIT."""
        gathering = _Gathering(self._loop, {worker.link for worker in workers}, then)
        gathering.timer = self._loop.later(RELIEF_LIMIT, gathering.give_up)
        for worker in workers:
            def relieved(answer: Message | None, link: Link = worker.link) -> None:
                self._loop.post(gathering.got, link)
            worker.link.ask_later("relieve", relieved, grace=grace)

    @staticmethod
    def _heard(gathering: "_Gathering", link: Link, answers: list[Message], answer: Message | None) -> None:
        if answer is not None and "error" not in answer:
            answers.append(answer)
        gathering.got(link)

    def drain(self, child_id: str, then: Callable[[], None]) -> None:
        """Close the child to new leases at every worker; `then` follows when the last lease is back."""
        gathering = _Gathering(self._loop, {*self._workers, *self._departed}, then)
        for worker in self.all():
            self._drain_at(worker, child_id, gathering)
        for worker in self._departed.values():
            self._drained(worker, child_id, gathering, None)

    def _drain_at(self, worker: Worker, child_id: str, gathering: "_Gathering") -> None:
        def drained(answer: Message | None) -> None:
            self._loop.post(self._drained, worker, child_id, gathering, answer)
        worker.link.ask_later("drain", drained, child_id=child_id)

    def _drained(self, worker: Worker, child_id: str, gathering: "_Gathering", answer: Message | None) -> None:
        if answer is not None:
            gathering.got(worker.link)
        elif processes.is_alive(worker.pid):
            self._loop.later(RECONNECT, self._still_held, worker, child_id, gathering)
        else:
            gathering.got(worker.link)

    def _still_held(self, worker: Worker, child_id: str, gathering: "_Gathering") -> None:
        """After a break: the same worker may be back with the lease, and is asked again."""
        for other in self.all():
            if other.pid == worker.pid:
                gathering.expect(other.link)
                self._drain_at(other, child_id, gathering)
        gathering.got(worker.link)


class _Gathering:
    """Waits for several answers, then calls once; at once when there is nobody to wait for."""

    def __init__(self, loop: Loop, missing: set[Link], then: Callable[[], None]) -> None:
        self.timer: Any = None
        self._missing = missing
        self._then: Callable[[], None] | None = then
        if not missing:
            loop.post(self.give_up)

    def expect(self, link: Link) -> None:
        self._missing.add(link)

    def got(self, link: Link) -> None:
        self._missing.discard(link)
        if not self._missing:
            self.give_up()

    def give_up(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        then, self._then = self._then, None
        if then is not None:
            then()
