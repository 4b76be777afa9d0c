"""`EngineCheck`: every engine_check_secs the daemon looks for a newer engine build, and logs what it finds.

It installs nothing. What was found last is kept in run/, so that a daemon that restarts often asks no more for it.
"""

import logging
import time
from typing import Any

from blazar.engines.builds import Builds
from blazar.engines.install.currency import Currency, check, remember, remembered
from blazar.engines.install.flavour import Machine
from blazar.engines.install.release import Releases
from blazar.engines.routing import KIND
from blazar.errors import BlazarError
from blazar.hardware.census import census
from blazar.paths import Paths
from blazar.supervisor.loop import Loop, Timer
from blazar.supervisor.policies import engine_check
from blazar.supervisor.pool import Pool

log = logging.getLogger(__name__)


class EngineCheck:
    """Used on the loop's thread, except for the look itself."""

    def __init__(self, loop: Loop, pool: Pool, paths: Paths, config: Any) -> None:
        self._loop = loop
        self._pool = pool
        self._paths = paths
        self._next: Timer | None = None
        self._configure(config)

    def _configure(self, config: Any) -> None:
        self._every = float(config.engine_check_secs)
        self._channel, self._asset = config.update_channel, config.engine_asset
        self._releases = Releases.configured(config.runtime)

    def take(self, config: Any) -> None:
        """From now on these are the settings."""
        self._configure(config)
        self.plan()

    def plan(self) -> None:
        """Set the timer for the next look."""
        now = time.time()
        last = remembered(self._paths, now)
        self._later(engine_check.wait(now, last["at"] if last else None, self._every))

    def _later(self, seconds: float | None) -> None:
        if self._next is not None:
            self._next.cancel()
            self._next = None
        if seconds is not None:
            self._next = self._loop.later(seconds, self._pool.submit, self._looked, self._look)

    def _look(self) -> Currency:
        active = Builds(self._paths, holds_daemon_lock=True).in_use(KIND)
        found = check(self._releases, self._channel, self._asset, Machine.of(census()), active)
        remember(self._paths, found, time.time())
        return found

    def _looked(self, found: Currency | None, error: BlazarError | None) -> None:
        if error is not None:
            log.info("no newer engine build could be looked for: %s", error)
        elif found is not None:
            log.info("engine: %s", found.line())
        self._later(self._every)
