"""Loads ahead of any request: the list `preload` at the start, and with predictive_preload what usually comes next.

Neither makes any other model go. What does not load costs a line in the log.
"""

import logging
from collections.abc import Sequence
from typing import Any

from blazar.errors import BlazarError, ShuttingDown
from blazar.store.store import Store
from blazar.supervisor.fleet import Fleet
from blazar.supervisor.loop import Loop, Timer
from blazar.supervisor.policies.preload import Followers
from blazar.supervisor.pool import Pool

log = logging.getLogger(__name__)

LOOK_EVERY = 1.0
"""Seconds between two looks at what is used."""


class Preload:
    """The models named in the settings, one after the other. Used on the loop's thread only."""

    def __init__(self, names: Sequence[str], store: Store, pool: Pool, fleet: Fleet) -> None:
        self._names = list(dict.fromkeys(names))
        self._left = list(self._names)
        self._is_busy = False
        self._store = store
        self._pool = pool
        self._fleet = fleet

    def go_on(self) -> None:
        """Load the next one."""
        self._is_busy = bool(self._left)
        if self._left:
            self._name = self._left.pop(0)
            self._pool.submit(self._found, self._full_name, self._name)

    def take(self, names: Sequence[str]) -> None:
        """These are named now: those that are new are loaded."""
        self._left += [name for name in dict.fromkeys(names) if name not in self._names]
        self._names = list(dict.fromkeys(names))
        if not self._is_busy:
            self.go_on()

    def _full_name(self, name: str) -> str:
        return self._store.find(name).name

    def _found(self, model: Any, error: BlazarError | None) -> None:
        if error is not None:
            self._loaded(None, error)
        else:
            self._fleet.ensure_ready(model, self._loaded, is_spare=True)

    def _loaded(self, _: Any, error: BlazarError | None) -> None:
        if isinstance(error, ShuttingDown):
            return
        if error is not None:
            log.warning("preload: %s is not loaded: %s", self._name, error.message)
        self.go_on()


class Prediction:
    """Loads the model that usually follows the one just used, where there is room. Used on the loop's thread only."""

    def __init__(self, loop: Loop, fleet: Fleet) -> None:
        self._loop = loop
        self._fleet = fleet
        self._followers = Followers()
        self._seen = 0.0
        self._next: Timer | None = None

    def turn(self, on: bool) -> None:
        """Begin, or end."""
        if on and self._next is None:
            self._watch()
        elif not on and self._next is not None:
            self._next.cancel()
            self._next = None

    def _watch(self) -> None:
        """Look now, and again and again."""
        self._next = self._loop.later(LOOK_EVERY, self._watch)
        is_news = False
        for at, model in self._fleet.used_after(self._seen):
            self._seen = at
            is_news = self._followers.use(model) or is_news
        expected = self._followers.expected(self._fleet.loaded()) if is_news else None
        if expected is not None:
            log.info("%s usually follows what was used just now, and is loaded ahead", expected)
            self._fleet.ensure_ready(expected, self._loaded, is_spare=True)

    def _loaded(self, _: Any, error: BlazarError | None) -> None:
        if error is not None:
            log.info("predictive_preload: %s", error.message)
