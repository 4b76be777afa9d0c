"""All children: who is asked for, who may start, who must go. Carries out what the pure deciders decide."""

import logging
import math
from collections.abc import Callable, Mapping, MutableSet
from dataclasses import replace
from functools import partial
from typing import Any

from blazar.engines.router import fingerprint
from blazar.errors import BlazarError, LoadFailed, ShuttingDown
from blazar.hardware.census import Census
from blazar.planner.installed import refused
from blazar.planner.plan import Refusal
from blazar.planner.room import Room
from blazar.supervisor import explained, scheduler
from blazar.supervisor.actions import Action, Evict, Refuse, Save, Start, Wake
from blazar.supervisor.child import Child
from blazar.supervisor.loop import Timer
from blazar.supervisor.means import Means, Prepared, Waiter, Weighed
from blazar.supervisor.outlook import Outlook
from blazar.supervisor.policies import idle, outdated, session_bank
from blazar.supervisor.ram_warm import RamWarm
from blazar.supervisor.routed import Routed
from blazar.supervisor.snapshot import ChildView, Snapshot
from blazar.supervisor.states import LIVE, State
from blazar.supervisor.workers import Workers
from blazar.transport import ROUTER, Endpoint, model_at

log = logging.getLogger(__name__)

LOOK_AROUND = 0.5
"""Seconds between two looks for idle children."""
USUAL_COST = 1
"""What it costs to evict a model for which no `evict_cost` is set."""


class Fleet:
    """With `router` one child serves all models that it can. `shown` holds the places of children that have been shown
    something since they were last evicted."""

    def __init__(self, means: Means, workers: Workers, *, max_loaded: int, keep_alive: float,
                 router: bool = False, shown: MutableSet[str] | None = None) -> None:
        self._means = means
        self._workers = workers
        self._max_loaded = max_loaded
        self._keep_alive = keep_alive
        self._shown = set() if shown is None else shown
        self._children: dict[str, Child] = {}
        self._stopping = False
        self._outlook = Outlook()
        self._looking = self._look_again = False
        self._wake: Timer | None = None
        self._ram_warm = RamWarm(means.loop)
        self._routed = Routed(self.child(ROUTER), workers, means.pool, self._ensure_alone,
                              self._is_alone) if router else None
        means.loop.later(LOOK_AROUND, self._look_around)

    # -- asked from outside ------------------------------------------------------------------------------

    def ensure_ready(self, place: str, waiter: Waiter, is_spare: bool = False) -> None:
        """Load the model and tell `waiter`; one that `is_spare` is loaded into free room, or not at all."""
        if self._stopping:
            waiter(None, ShuttingDown())
        elif self._routed is not None:
            self._routed.ensure_ready(place, waiter, is_spare)
        else:
            self.child(place).ensure_ready(waiter, is_spare)

    def keep(self, model: str, seconds: float | None) -> None:
        """Set how long the model stays after its last request; None = as configured."""
        if seconds == 0 and self._is_routed(model):
            self.evict(model, lambda _: None)
            return
        children = self._of(model)
        for child in children:
            child.keep_for(self._keep_alive if seconds is None else seconds)
        if children:
            self._means.changed()
            self._workers.refresh(self._evict_idle)

    def evict(self, model: str, then: Callable[[bool], None]) -> None:
        """Unload the model when its running requests have ended; `then` is told whether it was loaded."""
        children = [child for child in self._children.values()
                    if child.model == model and child.state is not State.ABSENT]
        if not children and self._routed is not None and self._is_routed(model):
            self._routed.evict(model, then)
            return
        if not children:
            then(False)
            return
        _when_all_absent(children, lambda: then(True))
        for child in children:
            if child.state is State.READY:
                self._drain(child, "asked for", "asked")
            elif child.state in (State.QUEUED, State.STARTING):
                child.stop(LoadFailed(model=model, reason="it was stopped while it was loading", output=""))

    def endpoint_of(self, child_id: str) -> Endpoint | None:
        """That of a child, or of a router's model, which serves under this id, if only those who have it; else None."""
        return next((endpoint for child in self._children.values() for endpoint in child.reached().values()
                     if endpoint.child_id == child_id), None)

    def put_down(self, child_id: str) -> None:
        """End a wedged child at once, or have the router unload a model that is."""
        endpoint = self.endpoint_of(child_id)
        child = next((child for child in self._children.values() if child_id in child.lease_ids), None)
        if child is not None:
            log.error("%s: it does nothing with its requests, so it is ended", child_id)
            self._means.publish("child_wedged", model=child.model, child_id=child_id)
        if endpoint is not None and self._routed is not None and endpoint.lane == ROUTER:
            self._routed.evict(endpoint.model, lambda _: None)
        elif child is not None:
            child.put_down()

    def take(self, max_loaded: int, keep_alive: float) -> None:
        """From now on these are the settings; a child that nobody asked to keep otherwise stays as long as they say."""
        self._max_loaded, self._keep_alive = max_loaded, keep_alive
        for child in self._children.values():
            child.take(keep_alive)
            child.forgive()
        self._means.changed()

    def reconsider(self) -> None:
        """What is loaded next is weighed by other settings now."""
        if self._routed is not None:
            self._routed.reconsider()
        for child in self._children.values():
            child.reconsider()

    def compare(self, digests: Mapping[str, str]) -> None:
        """`digests` are the files that the store has now, by model: children of others go. What has failed may be tried
        again, since models or engines have changed."""
        if self._routed is not None:
            self._routed.reconsider()
        for child in self._children.values():
            child.compare(fingerprint(digests) if child.place == ROUTER else digests.get(child.model))
            child.forgive()
        self._carry_out(outdated.decide(self._view()))
        self._means.pool.submit(lambda *_: None, self._means.forget, digests)

    def endpoints(self) -> dict[str, dict[str, Any]]:
        """The ready children by place, for the gateway."""
        return {place: endpoint.to_dict() for child in self._children.values()
                for place, endpoint in child.endpoints().items()}

    def describe(self) -> list[dict[str, Any]]:
        """All children, for people."""
        return [{"model": child.model, "state": child.state.value, "pid": child.pid, "id": child.id}
                for _, child in sorted(self._children.items()) if child.state is not State.ABSENT]

    def child(self, place: str) -> Child:
        """The one of that place, in whatever state."""
        if place not in self._children:
            self._children[place] = Child(place, self._means, self._keep_alive, self._ended)
        return self._children[place]

    def children(self) -> list[Child]:
        """All children, in whatever state, by their places."""
        return [child for _, child in sorted(self._children.items())]

    def ready(self, state: State = State.READY) -> list[Child]:
        """The children that serve, or are in another state."""
        return [child for child in self._children.values() if child.state is state]

    def reshape(self, child: Child, why: str, then: Callable[[BlazarError | None], None],
                is_spare: bool = False) -> None:
        """Start a ready child anew once its running requests have ended, with what the loader works out by then.

        `then` gets the error with which that failed, if it did. How long the child stays, when nobody uses it, is
        kept. When `is_spare`, no other model goes for it unless somebody asks for this one meanwhile.
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
        child.ensure_ready(served, is_spare)

    def room_without(self, child: Child, then: Callable[[Census, Room], None]) -> None:
        """See what there would be for a ready child that came anew while all others stay; `then` is told."""
        self._look(lambda: then(self._outlook.census,
                                scheduler.Scene(self._view(), self._max_loaded).without(child.place)))

    def loaded(self) -> set[str]:
        """The models that are loaded, or being loaded."""
        return {model for child in self._children.values() if child.state is not State.ABSENT for model in child.models}

    def used_after(self, moment: float) -> list[tuple[float, str]]:
        """When which models were last used, where that was after `moment` of CLOCK_MONOTONIC; the earliest first."""
        uses = [(self._workers.use_of(child.lease_id(model)).last_used, model)
                for child in self._children.values() for model in child.models]
        return sorted(use for use in uses if use[0] > moment)

    def prepared(self, model: str) -> Prepared | None:
        """What the model's child was started with; None while it has none."""
        return next((child.serves.get(model, child.prepared) for child in self._of(model) if child.state in LIVE), None)

    def explain(self, model: str, weighed: Weighed, then: Callable[[dict[str, Any]], None]) -> None:
        """`then` is told how a model without a child would be loaded now, and who would go for it."""
        def looked() -> None:
            view = self._with_settings(ChildView(model, State.QUEUED, 0.0, asked_at=self._means.loop.now()), weighed)
            now = self._view()
            others = (child for child in now.children if child.state in LIVE and model_at(child.place) != model)
            snapshot = replace(now, children=(*others, view))
            decided = scheduler.decide(math.inf, snapshot, self._max_loaded)
            then(explained.of_absent(model, weighed.program, scheduler.Scene(snapshot, self._max_loaded).best(view),
                                     decided))

        self._look(looked)

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
        """After any change: look at the memory if anybody waits, then decide."""
        if self._stopping:
            return
        self._workers.keep_only({lease for child in self._children.values() for lease in child.lease_ids})
        if not any(child.state is State.QUEUED and child.weighed for child in self._children.values()):
            return
        if self._looking:
            self._look_again = True
            return
        self._looking, self._look_again = True, False
        self._look(self._decide)

    def _decide(self) -> None:
        """Start what may start; make room, by fresh usage, for what may not."""
        self._looking = False
        if self._stopping:
            return
        decided = scheduler.decide(self._means.loop.now(), self._view(), self._max_loaded)
        self._carry_out([action for action in decided if not isinstance(action, Evict)])
        if any(isinstance(action, Evict) for action in decided):
            self._looking = True
            self._workers.refresh(self._make_room)
        elif self._look_again:
            self.schedule()

    def _make_room(self) -> None:
        self._looking = False
        if self._stopping:
            return
        self._carry_out(scheduler.decide(self._means.loop.now(), self._view(), self._max_loaded))
        if self._look_again:
            self.schedule()

    def _look(self, then: Callable[[], None]) -> None:
        """See how much memory is free, on a thread; `then` follows."""
        quiet = self._is_quiet()

        def looked(census: Census | None, error: BlazarError | None) -> None:
            if census is not None:
                self._outlook.look(census, quiet and self._is_quiet(), self._means.loop.now())
            then()

        self._means.pool.submit(looked, self._means.look)

    def _is_quiet(self) -> bool:
        return not any(child.state in (State.STARTING, State.STOPPING) for child in self._children.values())

    def _look_around(self) -> None:
        self._means.loop.later(LOOK_AROUND, self._look_around)
        if self._stopping:
            return
        for child in self._children.values():
            child.look()
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
            if isinstance(action, Start):
                self._ram_warm.end()
                self._outlook.started(action.offer.held)
                self._children[action.place].start(action.offer)
            elif isinstance(action, Refuse):
                child = self._children[action.place]
                child.stop(refused(child.model, action.why) if isinstance(action.why, Refusal) else
                           LoadFailed(model=child.model, reason=action.why, output=""))
            elif isinstance(action, Save):
                self._children[action.place].save()
            elif isinstance(action, Evict):
                self._drain(self._children[action.place], action.why, action.reason)
        wakes = [action.seconds for action in actions if isinstance(action, Wake)]
        if wakes:
            if self._wake is not None:
                self._wake.cancel()
            self._wake = self._means.loop.later(min(wakes), self.schedule)

    def _drain(self, child: Child, why: str, reason: str) -> None:
        log.info("%s: %s: %s", child.id, "reshaped" if reason == "reshaped" else "evicted", why)
        self._means.publish("model_evicted", **child.names, reason=reason, why=why)
        if reason != "reshaped":
            self._shown.discard(child.place)
        child.drain()
        generation = child.generation

        def drained() -> None:
            if child.state is State.DRAINING and child.generation == generation:
                child.stop()

        drain_all(self._workers, child.lease_ids, drained)

    def _view(self) -> Snapshot:
        loading = [child.held for child in self._children.values() if child.state is State.STARTING]
        return Snapshot(tuple(self._view_of(child) for child in self._children.values()), self._outlook.memory(loading))

    def _view_of(self, child: Child) -> ChildView:
        use = self._workers.use_of(*child.lease_ids)
        view = ChildView(child.place, child.state, child.keep_alive, child.ready_at, use.last_used, use.in_flight,
                         child.asked_at, child.not_before, outdated=child.outdated, held=child.held,
                         sleeps_after=child.sleeps_after, saved_at=child.saved_at, is_spare=child.is_spare)
        return view if child.weighed is None else self._with_settings(view, child.weighed)

    def _with_settings(self, view: ChildView, weighed: Weighed) -> ChildView:
        settings = weighed.settings
        cost = settings.get("evict_cost")
        return replace(view, pinned=bool(settings.get("pin")), group=settings.get("group") or "",
                       exclusive=bool(settings.get("exclusive")), cost=USUAL_COST if cost is None else cost,
                       offer=partial(weighed.need.offer, self._outlook.census))

    def _ensure_alone(self, model: str, waiter: Waiter, is_spare: bool) -> None:
        self.child(model).ensure_ready(waiter, is_spare)

    def _is_alone(self, model: str) -> bool:
        return model in self._children and self._children[model].state is not State.ABSENT

    def _is_routed(self, model: str) -> bool:
        return self._routed is not None and self._routed.serves(model)

    def _ended(self, child: Child) -> None:
        self._outlook.ended(child.held, self._means.loop.now())

    def _of(self, model: str) -> list[Child]:
        """All children that serve a model."""
        return [child for child in self._children.values() if model in child.models]


def drain_all(workers: Workers, child_ids: list[str], then: Callable[[], None]) -> None:
    """Drain each of them; `then` follows when the last one has no lease any more."""
    left = len(child_ids)

    def one_less() -> None:
        nonlocal left
        left -= 1
        if left <= 0:
            then()

    for child_id in child_ids:
        workers.drain(child_id, one_less)
    if not child_ids:
        then()


def _when_all_absent(children: list[Child], then: Callable[[], None]) -> None:
    left = len(children)

    def one_less() -> None:
        nonlocal left
        left -= 1
        if not left:
            then()

    for child in children:
        child.when_absent(one_less)
