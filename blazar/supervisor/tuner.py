"""`Tuner`: looks once a second at the ready children and changes slots, speculation and micro-batches of those that
have them open, by the policies. A change is carried out by a reshape: the child drains, then starts anew with it.

All of it is off the path of requests: how many are in flight the gateway reports once a second anyway, and a child is
asked for its counts of drafts at the end of a window only, and only if somebody has to know them.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from blazar.config.config import Config
from blazar.config.effective import effective, overlay
from blazar.config.reach import changed
from blazar.errors import BlazarError
from blazar.hardware.census import Census
from blazar.planner.room import Room
from blazar.supervisor.child import Child
from blazar.supervisor.drafts import read_drafts
from blazar.supervisor.fleet import Fleet
from blazar.supervisor.loop import Loop, Timer
from blazar.supervisor.policies import adaptive_slots, spec_governor, ubatch_governor
from blazar.supervisor.policies.window import Window
from blazar.supervisor.pool import Pool
from blazar.supervisor.states import State
from blazar.supervisor.workers import Workers
from blazar.transport import ROUTER, model_at

log = logging.getLogger(__name__)

LOOK = 1.0
"""Seconds between two looks, as often as the gateway reports."""
WITHOUT_TEXT = frozenset({"embedding", "rerank"})
"""Capabilities of models that write none."""
FLAGS = {"slots": {"--parallel", "-np"}, "ubatch_size": {"-ub", "--ubatch-size"},
         "spec": {"--spec-type", "--spec-default"}}
"""Flags of a person's own that take a setting out of our hands."""

LosesNothing = Callable[[str, Mapping[str, Any], Mapping[str, Any], Census, Room], bool]
"""By place, whether the settings of the second mapping cost it nothing beside those of the first, on a machine with
such room; on a thread."""


@dataclass
class Tuned:
    """What is kept of one child's place."""

    child_id: str = ""
    waiting: Window | None = None
    window: Window | None = None
    spec: spec_governor.Governed = field(default_factory=spec_governor.Governed)
    tier: ubatch_governor.Tier = field(default_factory=ubatch_governor.Tier)
    drafts: tuple[int, int] | None = None
    """The child's counts at the end of the last window."""
    refused: set[tuple[str, Any]] = field(default_factory=set)
    """Changes for which there is no room."""
    busy: bool = False
    """Whether a change is under way."""


class Tuner:
    """Used on the loop's thread. `tuned` is where it keeps what was changed, by place, for the loader to read."""

    def __init__(self, loop: Loop, pool: Pool, workers: Workers, fleet: Fleet, config: Config,
                 loses_nothing: LosesNothing, tuned: dict[str, dict[str, Any]]) -> None:
        self._loop = loop
        self._pool = pool
        self._workers = workers
        self._fleet = fleet
        self._config = config
        self._loses_nothing = loses_nothing
        self._tuned = tuned
        self._places: dict[str, Tuned] = {}
        self._next: Timer | None = None

    def governors(self) -> dict[str, dict[str, str]]:
        """By model, where each governor that is on stands, for /metrics."""
        on = {"spec": self._config.spec_auto_manage, "ubatch": self._config.ubatch_auto}
        found: dict[str, dict[str, str]] = {}
        for child in self._tunable() if any(on.values()) else ():
            kept = self._places.get(child.place, Tuned())
            names = {"spec": kept.spec.name, "ubatch": kept.tier.name}
            found.setdefault(child.model, {which: name for which, name in names.items() if on[which]})
        return found

    def watch(self) -> None:
        """Begin to look."""
        config = self._config
        if config.adaptive_slots or config.spec_auto_manage or config.ubatch_auto:
            self._look_around()

    def take(self, config: Config) -> None:
        """From now on these are the settings: what was changed while they were others is forgotten where they say
        something new of it."""
        spoken = set(changed(self._config.as_dict(), config.as_dict()))
        for place, kept in self._tuned.items():
            overlaid = "model_overrides" in spoken and overlay(self._config, model_at(place)) != overlay(
                config, model_at(place))
            self._tuned[place] = {name: value for name, value in kept.items() if not overlaid and name not in spoken}
        self._config = config
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self.watch()

    def _look_around(self) -> None:
        self._next = self._loop.later(LOOK, self._look_around)
        for child in self._tunable():
            self.look(child)

    def _tunable(self) -> list[Child]:
        """The ready children but for the router, whose processes are its own to start."""
        return [child for child in self._fleet.ready() if child.place != ROUTER]

    def look(self, child: Child) -> None:
        """Once a second, at a ready child."""
        kept, now = self._places.setdefault(child.place, Tuned()), self._loop.now()
        if kept.child_id != child.id or kept.window is None:
            kept.child_id, kept.waiting, kept.window, kept.drafts = child.id, None, Window(now), (0, 0)
        if kept.busy or child.endpoint is None:
            return
        slots, in_flight = child.endpoint.slots, self._workers.use_of(child.id).in_flight
        kept.window = kept.window.look(in_flight > slots)
        if (kept.waiting or in_flight > slots) and self._is_open(child, "slots"):
            kept.waiting, more = adaptive_slots.look(now, kept.waiting, slots, in_flight)
            if more:
                self._change(child, kept, {"slots": slots + 1}, f"requests have waited for a minute: {slots + 1} slots")
                return
        if kept.window.is_over(now):
            self._window_over(child, kept, kept.window)
            kept.window = Window(now)

    def _window_over(self, child: Child, kept: Tuned, window: Window) -> None:
        if self._is_open(child, "ubatch_size"):
            limit = self._config.batch_size or ubatch_governor.RUNGS[-1]
            tier = ubatch_governor.window_over(kept.tier, window, limit)
            if tier.rung != kept.tier.rung and self._change(
                    child, kept, {"ubatch_size": tier.tokens}, f"micro-batch: {tier.name}", lambda: _set(kept, tier)):
                return
            kept.tier = tier if tier.rung == kept.tier.rung else kept.tier
        if self._is_open(child, "spec"):
            endpoint, generation = child.endpoint, child.id
            self._pool.submit(lambda told, error: self._drafts_told(child, generation, window, told),
                              read_drafts, endpoint)

    def _drafts_told(self, child: Child, child_id: str, window: Window, told: tuple[int, int] | None) -> None:
        kept = self._places[child.place]
        if child.id != child_id or kept.busy:
            return
        before, kept.drafts = kept.drafts, told
        share = spec_governor.acceptance(told[0] - before[0], told[1] - before[1]) if told and before else None
        state = spec_governor.window_over(kept.spec, window, share)
        if state.parked == kept.spec.parked:
            kept.spec = state
            return
        why = "speculation is parked: it does not pay" if state.parked else "speculation is taken up again"
        self._change(child, kept, {"spec": "off" if state.parked else None}, why, lambda: _govern(kept, state))

    def _is_open(self, child: Child, name: str) -> bool:
        """Whether nobody has said what the setting `name` is for this child's model, and its policy is on."""
        prepared, config = child.prepared, self._config
        if prepared is None or prepared.lane.kind != "llamacpp" or not WITHOUT_TEXT.isdisjoint(
                prepared.launch.facts.get("capabilities", ())):
            return False
        settings = effective(config, child.model)
        if any(word.partition("=")[0] in FLAGS[name] for word in settings.get("extra_args") or ()):
            return False
        if name == "slots":
            return config.adaptive_slots and not settings.get("slots") and not settings.get("deterministic")
        if name == "ubatch_size":
            return config.ubatch_auto and not settings.get("ubatch_size")
        pinned = overlay(config, child.model).get("spec")
        runs = prepared.launch.settings.get("spec") != "off" or self._places[child.place].spec.parked
        return config.spec_auto_manage and pinned is None and runs

    def _change(self, child: Child, kept: Tuned, change: dict[str, Any], why: str,
                done: Callable[[], None] = lambda: None) -> bool:
        """Have the child started anew with `change`, where None takes one back, if the model loses nothing by it."""
        if any(item in kept.refused for item in change.items()):
            return False
        kept.busy = True
        before = self._tuned.get(child.place, {})
        then = _changed(before, change)
        child_id = child.id

        def told(fits: bool | None, error: BlazarError | None) -> None:
            if child.id != child_id or child.state is not State.READY:
                kept.busy = False
            elif error is not None or not fits:
                log.info("%s: left as it is, for want of memory: %s", child.id, why)
                refused()
            else:
                self._tuned[child.place] = _changed(self._tuned.get(child.place, {}), change)
                self._fleet.reshape(child, why, reshaped, is_spare=True)

        def reshaped(failure: BlazarError | None) -> None:
            kept.busy = False
            if failure is None:
                done()
            else:
                log.info("%s: taken back: %s: %s", child.place, why, failure.message)
                former = {name: before.get(name) for name in change}
                self._tuned[child.place] = _changed(self._tuned.get(child.place, {}), former)
                refused()

        def refused() -> None:
            kept.busy = False
            kept.refused |= set(change.items())

        self._fleet.room_without(child, lambda machine, room: self._pool.submit(
            told, self._loses_nothing, child.place, before, then, machine, room))
        return True


def _changed(tuned: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    """What others have changed besides, such as the context, stays."""
    return {name: value for name, value in {**tuned, **change}.items() if value}


def _set(kept: Tuned, tier: ubatch_governor.Tier) -> None:
    kept.tier = tier


def _govern(kept: Tuned, state: spec_governor.Governed) -> None:
    kept.spec = state
