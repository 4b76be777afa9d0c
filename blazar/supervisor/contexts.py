"""`Contexts`: children whose context a request wants larger (`num_ctx`). They are started anew with it once their
running requests have ended; never with a smaller one, and only once: what cannot be had is not tried again."""

import logging

from blazar.errors import BlazarError
from blazar.supervisor.child import Child
from blazar.supervisor.fleet import Fleet
from blazar.supervisor.means import Waiter
from blazar.supervisor.states import State
from blazar.transport import Endpoint

log = logging.getLogger(__name__)

SETTING = "default_ctx"


class Contexts:
    """Used on the loop's thread. `tuned` is where the loader finds what is asked, by the child's place."""

    def __init__(self, fleet: Fleet, tuned: dict[str, dict[str, int]]) -> None:
        self._fleet = fleet
        self._tuned = tuned
        self._tried: dict[str, int] = {}
        """The largest context that was asked for when the place's child was last started; 0 = none."""

    def ensure_ready(self, place: str, wanted: int, waiter: Waiter) -> None:
        """As the fleet does it, with a context of `wanted` tokens or more where that can be; 0 = as it comes."""
        child = self._fleet.child(place)
        if child.state is State.ABSENT:
            self._ask_for(place, wanted)
        elif self._is_worth_it(child, wanted):
            self._grow(child, wanted, waiter)
            return

        def served(endpoint: Endpoint | None, error: BlazarError | None) -> None:
            if endpoint is not None and self._is_worth_it(child, wanted):
                self._grow(child, wanted, waiter)  # it was loaded for somebody else
            else:
                waiter(endpoint, error)

        self._fleet.ensure_ready(place, served)

    def _is_worth_it(self, child: Child, wanted: int) -> bool:
        """Whether it serves with less than is wanted, and has not been asked for more than it has before."""
        if child.state is not State.READY or child.endpoint is None:
            return False
        return child.endpoint.ctx < wanted and child.endpoint.ctx >= self._tried.get(child.place, 0)

    def _grow(self, child: Child, wanted: int, waiter: Waiter) -> None:
        assert child.endpoint is not None
        place, had = child.place, self._tuned.get(child.place, {}).get(SETTING, 0)
        why = f"a request's num_ctx of {wanted} is more than its context of {child.endpoint.ctx} tokens"
        self._ask_for(place, wanted)

        def reshaped(error: BlazarError | None) -> None:
            if error is not None:
                log.warning("%s: cannot be loaded with a context of %d tokens: %s", child.id, wanted, error)
                self._ask_for(place, had)
                self._tried[place] = wanted
            self._fleet.ensure_ready(place, told)

        def told(endpoint: Endpoint | None, error: BlazarError | None) -> None:
            if endpoint is not None and endpoint.ctx < wanted:
                log.warning("%s: a context of %d tokens cannot be had here; it stays at %d", child.id, wanted,
                            endpoint.ctx)
            waiter(endpoint, error)

        self._fleet.reshape(child, why, reshaped)

    def _ask_for(self, place: str, tokens: int) -> None:
        self._tried[place] = tokens
        kept = {name: value for name, value in self._tuned.get(place, {}).items() if name != SETTING}
        self._tuned[place] = {**kept, **({SETTING: tokens} if tokens else {})}
