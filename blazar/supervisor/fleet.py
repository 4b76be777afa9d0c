"""All children: who is asked for, who may start, who must go. Carries out what the pure deciders decide."""

import logging
from collections.abc import Callable, Mapping
from typing import Any

from blazar.errors import BlazarError, LoadFailed, ShuttingDown
from blazar.supervisor import scheduler
from blazar.supervisor.actions import Action, Evict, Refuse, Start, Wake
from blazar.supervisor.child import Child, Means, Prepared, Waiter
from blazar.supervisor.policies import evict, idle, outdated
from blazar.supervisor.snapshot import ChildView, Snapshot
from blazar.supervisor.states import LIVE, State
from blazar.supervisor.workers import Workers
from blazar.transport import Endpoint

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
        means.loop.later(LOOK_AROUND, self._look_around)

    # -- asked from outside ------------------------------------------------------------------------------

    def ensure_ready(self, place: str, waiter: Waiter) -> None:
        if self._stopping:
            waiter(None, ShuttingDown())
        else:
            self.child(place).ensure_ready(waiter)

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

    def endpoints(self) -> dict[str, dict[str, Any]]:
        """The ready children by place, for the gateway."""
        return {place: child.endpoint.to_dict() for place, child in self._children.items()
                if child.state is State.READY and child.endpoint is not None}

    def describe(self) -> list[dict[str, Any]]:
        """All children, for people."""
        return [{"model": child.model, "state": child.state.value, "pid": child.pid, "id": child.id}
                for _, child in sorted(self._children.items()) if child.state is not State.ABSENT]

    def child(self, place: str) -> Child:
        """The one of that place, in whatever state."""
        if place not in self._children:
            self._children[place] = Child(place, self._means, self._keep_alive)
        return self._children[place]

    def ready(self) -> list[Child]:
        """The children that serve."""
        return [child for child in self._children.values() if child.state is State.READY]

    def reshape(self, child: Child, why: str, then: Callable[[BlazarError | None], None]) -> None:
        """Start a ready child anew once its running requests have ended, with what the loader works out by then.

        `then` gets the error with which that failed, if it did. How long the child stays, when nobody uses it, is
        kept.
        """
        if child.state is not State.READY or self._stopping:
            then(None)
            return
        keep_alive = child.keep_alive

        def served(endpoint: Endpoint | None, error: BlazarError | None) -> None:
            if endpoint is not None:
                child.keep_for(keep_alive)
            then(error)

        self._drain(child, why, "reshaped")
        child.ensure_ready(served)

    def prepared(self, model: str) -> Prepared | None:
        """What the model's child was started with; None while it has none."""
        return next((child.prepared for child in self._of(model) if child.state in LIVE), None)

    def stop(self, then: Callable[[], None]) -> None:
        """End all children for good."""
        self.refuse_loads()
        running = [child for child in self._children.values() if child.state is not State.ABSENT]
        if not running:
            then()
        _when_all_absent(running, then)
        for child in running:
            child.stop()

    def refuse_loads(self) -> None:
        """From now on nothing is loaded, and what is loading stops."""
        self._stopping = True
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
        if idle.decide(self._means.loop.now(), self._view()):
            self._workers.refresh(self._evict_idle)

    def _evict_idle(self) -> None:
        self._carry_out(idle.decide(self._means.loop.now(), self._view()))

    def _carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Wake):
                self._means.loop.later(action.seconds, self.schedule)
            elif isinstance(action, Start):
                self._children[action.place].start()
            elif isinstance(action, Refuse):
                child = self._children[action.place]
                child.stop(LoadFailed(model=child.model, reason=action.why, output=""))
            elif isinstance(action, Evict):
                self._drain(self._children[action.place], action.why)

    def _drain(self, child: Child, why: str, how: str = "evicted") -> None:
        log.info("%s: %s: %s", child.id, how, why)
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
                         child.asked_at, child.not_before, child.pinned, child.outdated)

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
