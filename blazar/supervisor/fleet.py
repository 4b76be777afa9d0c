"""All children: who is asked for, who may start, who must go. Carries out what the pure deciders decide."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from blazar.errors import LoadFailed, ShuttingDown
from blazar.supervisor import scheduler
from blazar.supervisor.actions import Action, Evict, Refuse, Save, Start, Wake
from blazar.supervisor.child import Child, Means, Prepared, Waiter
from blazar.supervisor.policies import evict, idle, outdated, session_bank
from blazar.supervisor.ram_warm import RamWarm
from blazar.supervisor.snapshot import ChildView, Snapshot
from blazar.supervisor.states import LIVE, State
from blazar.supervisor.workers import Workers

log = logging.getLogger(__name__)

LOOK_AROUND = 0.5
"""Seconds between two looks for idle children."""


class Fleet:
    def __init__(self, means: Means, workers: Workers, *, max_loaded: int, keep_alive: float) -> None:
        self._means = means
        self._workers = workers
        self._max_loaded = max_loaded
        self._keep_alive = keep_alive
        self._children: dict[str, Child] = {}
        self._stopping = False
        self._refreshing = False
        self._ram_warm = RamWarm(means.loop)
        means.loop.later(LOOK_AROUND, self._look_around)

    # -- asked from outside ------------------------------------------------------------------------------

    def ensure_ready(self, place: str, waiter: Waiter, is_spare: bool = False) -> None:
        """Load the model and tell `waiter`; one that `is_spare` is loaded at once, into free room, or not at all."""
        if self._stopping:
            waiter(None, ShuttingDown())
        else:
            self._child(place).ensure_ready(waiter, is_spare)

    def keep(self, model: str, seconds: float | None) -> None:
        """Set how long the model stays after its last request; None = as configured."""
        children = self._of(model)
        for child in children:
            child.keep_for(self._keep_alive if seconds is None else seconds)
        if children:
            self._means.changed()
            self._workers.refresh(self._evict_idle)

    def evict(self, model: str, then: Callable[[bool], None]) -> None:
        """Unload the model when its running requests have ended; `then` is told whether it was loaded."""
        children = [child for child in self._of(model) if child.state is not State.ABSENT]
        if not children:
            then(False)
            return
        _when_all_absent(children, lambda: then(True))
        for child in children:
            if child.state is State.READY:
                self._drain(child, "asked for")
            elif child.state in (State.QUEUED, State.STARTING):
                child.stop(LoadFailed(model=model, reason="it was stopped while it was loading", output=""))

    def compare(self, digests: Mapping[str, str]) -> None:
        """`digests` are the files that the store has now, by model: children of others go."""
        for child in self._children.values():
            child.compare(digests.get(child.model))
        self._carry_out(outdated.decide(self._view()))
        self._means.pool.submit(lambda *_: None, self._means.forget, digests)

    def endpoints(self) -> dict[str, dict[str, Any]]:
        """The ready children by place, for the gateway."""
        return {place: child.endpoint.to_dict() for place, child in self._children.items()
                if child.state is State.READY and child.endpoint is not None}

    def describe(self) -> list[dict[str, Any]]:
        """All children, for people."""
        return [{"model": child.model, "state": child.state.value, "pid": child.pid, "id": child.id}
                for _, child in sorted(self._children.items()) if child.state is not State.ABSENT]

    def loaded(self) -> set[str]:
        """The models that are loaded, or being loaded."""
        return {child.model for child in self._children.values() if child.state is not State.ABSENT}

    def used_after(self, moment: float) -> list[tuple[float, str]]:
        """When which models were last used, where that was after `moment` of CLOCK_MONOTONIC; the earliest first."""
        uses = [(self._workers.use_of(child.id).last_used, child.model) for child in self._children.values()]
        return sorted(use for use in uses if use[0] > moment)

    def prepared(self, model: str) -> Prepared | None:
        """What the model's child was started with; None while it has none."""
        return next((child.prepared for child in self._of(model) if child.state in LIVE), None)

    def stop(self, then: Callable[[], None], saving: float = 0.0) -> None:
        """End all children for good; those that serve have `saving` seconds for saving their slots."""
        self.refuse_loads()
        running = [child for child in self._children.values() if child.state is not State.ABSENT]
        if not running:
            then()
        _when_all_absent(running, then)
        for child in running:
            child.stop(saving=saving)

    def refuse_loads(self) -> None:
        """From now on nothing is loaded, and what is loading stops."""
        self._stopping = True
        self._ram_warm.end()
        for child in self._children.values():
            child.refuse_waiters(ShuttingDown())
            if child.state in (State.QUEUED, State.STARTING):
                child.stop(ShuttingDown())

    def kill(self) -> None:
        for child in self._children.values():
            child.kill()

    # -- deciding ----------------------------------------------------------------------------------------

    def schedule(self) -> None:
        """After any change: start what may start; make room, by fresh usage, for what may not."""
        if self._stopping:
            return
        self._workers.keep_only({child.id for child in self._children.values()})
        now = self._means.loop.now()
        self._carry_out(scheduler.decide(now, self._view(), self._max_loaded))
        if evict.decide(now, self._view(), self._max_loaded) and not self._refreshing:
            self._refreshing = True
            self._workers.refresh(self._make_room)

    def _make_room(self) -> None:
        self._refreshing = False
        self._carry_out(evict.decide(self._means.loop.now(), self._view(), self._max_loaded))

    def _look_around(self) -> None:
        self._means.loop.later(LOOK_AROUND, self._look_around)
        if self._stopping:
            return
        self._carry_out(outdated.decide(self._view()))
        self._carry_out(list(session_bank.decide(self._means.loop.now(), self._view())))
        if idle.decide(self._means.loop.now(), self._view()):
            self._workers.refresh(self._evict_idle)

    def _evict_idle(self) -> None:
        actions = idle.decide(self._means.loop.now(), self._view())
        self._carry_out(list(actions))
        for action in actions:
            self._ram_warm.after(self._children[action.place])

    def _carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Wake):
                self._means.loop.later(action.seconds, self.schedule)
            elif isinstance(action, Start):
                self._ram_warm.end()
                self._children[action.place].start()
            elif isinstance(action, Refuse):
                child = self._children[action.place]
                child.stop(LoadFailed(model=child.model, reason=action.why, output=""))
            elif isinstance(action, Save):
                self._children[action.place].save()
            elif isinstance(action, Evict):
                self._drain(self._children[action.place], action.why)

    def _drain(self, child: Child, why: str) -> None:
        log.info("%s: evicted: %s", child.id, why)
        child.drain()
        generation = child.generation

        def drained() -> None:
            if child.state is State.DRAINING and child.generation == generation:
                child.stop()

        self._workers.drain(child.id, drained)

    def _view(self) -> Snapshot:
        return Snapshot(tuple(self._view_of(child) for child in self._children.values()))

    def _view_of(self, child: Child) -> ChildView:
        use = self._workers.use_of(child.id)
        return ChildView(child.place, child.state, child.keep_alive, child.ready_at, use.last_used, use.in_flight,
                         child.asked_at, child.not_before, child.pinned, child.outdated,
                         child.sleeps_after, child.saved_at, child.is_spare)

    def _child(self, place: str) -> Child:
        if place not in self._children:
            self._children[place] = Child(place, self._means, self._keep_alive)
        return self._children[place]

    def _of(self, model: str) -> list[Child]:
        """All children of a model."""
        return [child for child in self._children.values() if child.model == model]


def _when_all_absent(children: list[Child], then: Callable[[], None]) -> None:
    left = len(children)

    def one_less() -> None:
        nonlocal left
        left -= 1
        if not left:
            then()

    for child in children:
        child.when_absent(one_less)
