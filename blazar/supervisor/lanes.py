"""Looks after the engine lanes: reads the catalog again and retires forks that the main engine has caught up with."""

import logging
import time
from collections.abc import Collection

from blazar.engines.install.forks import Forks
from blazar.engines.install.shelf import Shelf
from blazar.errors import BlazarError
from blazar.paths import Paths
from blazar.supervisor.loop import Loop
from blazar.supervisor.pool import Pool

log = logging.getLogger(__name__)

INTERVAL = 6 * 3600.0
"""Seconds between two looks."""


class Lanes:
    """`url` is where the catalog is, empty = nowhere; `retire_days` of 0 retire nothing; `needed` are the tags that
    models are pinned to."""

    def __init__(self, loop: Loop, pool: Pool, paths: Paths, url: str, retire_days: int,
                 needed: Collection[str]) -> None:
        self._loop = loop
        self._pool = pool
        self._forks = Forks(Shelf(paths))
        self._url = url
        self._days = retire_days
        self._needed = needed

    def take(self, url: str, retire_days: int, needed: Collection[str]) -> None:
        """From now on these are the settings; the next look goes by them."""
        self._url, self._days, self._needed = url, retire_days, needed

    def watch(self) -> None:
        """On the loop: look now, and again and again."""
        self._pool.submit(self._looked, self._look)
        self._loop.later(INTERVAL, self.watch)

    def _look(self) -> list[str]:
        """On a thread. A catalog that is not there today changes nothing."""
        if self._url:
            try:
                self._forks.refresh(self._url)
            except BlazarError as error:
                log.warning("%s", error)
        return self._forks.tend(self._days, time.time(), self._needed) if self._forks.any_installed() else []

    def _looked(self, removed: list[str] | None, error: BlazarError | None) -> None:
        if error is not None:
            log.warning("engine lanes: %s", error)
        for tag in removed or ():
            log.info("removed the engine build %s: the main engine does all that it did", tag)
