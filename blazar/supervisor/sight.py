"""`Sight`: children that get their projector with the first request that shows them something (`mmproj_policy` "lazy").

Such a child is loaded without its projector. If it serves when it is shown something, it is started anew with it, as
soon as its running requests have ended: first it is worked out whether that fits. It keeps the projector until it is
evicted. When it cannot be loaded with it, it goes on without.
"""

from collections.abc import Callable, MutableSet
from dataclasses import dataclass, replace
from functools import partial

from blazar.errors import BlazarError, LoadFailed
from blazar.hardware.census import Census
from blazar.planner.installed import refused
from blazar.planner.need import Need
from blazar.planner.plan import Refusal
from blazar.supervisor.child import Child
from blazar.supervisor.contexts import Contexts
from blazar.supervisor.fleet import Fleet
from blazar.supervisor.loop import Loop
from blazar.supervisor.means import Waiter, Weighed
from blazar.supervisor.pool import Pool
from blazar.transport import Endpoint, model_at

AGAIN = 60.0
"""Seconds for which a child whose projector could not be loaded is not asked for it again: each try stops a child that
serves."""
TRIES = 3
"""How often a request is waited with, when its child always goes in between."""


@dataclass(frozen=True)
class _Asked:
    """A request for the child of a `place`, which shall read `ctx` tokens at least (0 = as it comes)."""

    place: str
    ctx: int
    waiter: Waiter
    tries: int = TRIES

    def again(self) -> "_Asked":
        return replace(self, tries=self.tries - 1)


class Sight:
    """Used on the loop's thread. `shown` holds the places of the children that are to have their projector, for the
    loader to read; the fleet takes out those that it evicts."""

    def __init__(self, loop: Loop, pool: Pool, fleet: Fleet, contexts: Contexts, weigh: Callable[[str], Weighed],
                 look: Callable[[], Census], shown: MutableSet[str]) -> None:
        self._loop = loop
        self._pool = pool
        self._fleet = fleet
        self._contexts = contexts
        self._weigh = weigh
        self._look = look
        self._shown = shown
        self._failed: dict[str, tuple[float, BlazarError]] = {}
        """Until when, and why, a place is not loaded with its projector."""
        self._trying: dict[str, list[Callable[[BlazarError | None], None]]] = {}
        """Who waits to hear whether it fits."""

    def ensure_ready(self, place: str, ctx: int, waiter: Waiter, is_shown: bool) -> None:
        """As `Contexts` does it; a child that `is_shown` something has its projector."""
        asked = _Asked(place, ctx, waiter)
        if is_shown:
            self._show(asked)
        else:
            self._contexts.ensure_ready(place, ctx, partial(self._read, asked))

    def forgive(self) -> None:
        """Models or engines have changed, so that it may work now."""
        self._failed.clear()

    def _read(self, asked: _Asked, endpoint: Endpoint | None, error: BlazarError | None) -> None:
        """What has come of a load that is for text only: no projector is to keep it from being loaded."""
        place = asked.place
        if isinstance(error, LoadFailed) and (place in self._shown or self._refusal(place) is error):
            self._lost(place, error)
            self._contexts.ensure_ready(place, asked.ctx, asked.waiter)
        else:
            asked.waiter(endpoint, error)

    def _show(self, asked: _Asked) -> None:
        place = asked.place
        refusal = self._refusal(place)
        if refusal is not None:
            asked.waiter(None, refusal)
            return
        child = next((child for child in self._fleet.ready() if child.place == place), None)
        if child is not None and child.endpoint is not None and not child.endpoint.projector and asked.tries:
            self._give(child, asked)
            return
        if place not in self._shown:
            self._shown.add(place)
            self._fleet.child(place).reconsider()
        self._contexts.ensure_ready(place, asked.ctx, partial(self._served, asked))

    def _served(self, asked: _Asked, endpoint: Endpoint | None, error: BlazarError | None) -> None:
        if isinstance(error, LoadFailed):
            self._lost(asked.place, error)
        if endpoint is None or endpoint.projector or not asked.tries:
            asked.waiter(endpoint, error)
        else:
            self._show(asked.again())

    def _give(self, child: Child, asked: _Asked) -> None:
        """Start a child anew with its projector, if that fits; whoever asked is told what came of it."""
        place = child.place

        def tried(error: BlazarError | None) -> None:
            if error is not None:
                asked.waiter(None, error)
            else:
                self._show(asked.again())

        def worked_out(_: None, error: BlazarError | None) -> None:
            if error is not None:
                self._lost(place, error)
            else:
                self._fleet.reshape(child, "it is shown something, which takes its projector", lambda error: None)
            for told in self._trying.pop(place):
                told(error)

        self._trying.setdefault(place, []).append(tried)
        if len(self._trying[place]) == 1:
            self._shown.add(place)
            self._pool.submit(worked_out, self._refuse_unfit, place)

    def _refuse_unfit(self, place: str) -> None:
        """Raise the refusal of a child that does not fit with its projector. On a thread."""
        need = self._weigh(place).need
        assert isinstance(need, Need), "a router's models have theirs from the start"
        found = need.plan(need.machine(self._look()))
        if isinstance(found, Refusal):
            raise refused(model_at(place), found)

    def _lost(self, place: str, error: BlazarError) -> None:
        if place in self._shown:
            self._shown.discard(place)
            self._failed[place] = self._loop.now() + AGAIN, error

    def _refusal(self, place: str) -> BlazarError | None:
        until, error = self._failed.get(place, (0.0, None))
        return error if self._loop.now() < until else None
