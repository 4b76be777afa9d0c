"""`Relaunch`: after the settings have changed, the children that would be started otherwise now are started anew.

Both settings are worked out for the same machine and the same room, so that nothing but the settings tells them apart.
A child drains first, and one that is not needed comes into free room only; one that would not fit stays as it is.
"""

import logging
from collections.abc import Callable
from functools import partial

from blazar.errors import BlazarError
from blazar.hardware.census import Census
from blazar.planner.room import Room
from blazar.supervisor.child import Child
from blazar.supervisor.fleet import Fleet
from blazar.supervisor.loader import Loader
from blazar.supervisor.loop import Loop
from blazar.supervisor.means import Weighed
from blazar.supervisor.pool import Pool
from blazar.supervisor.report import Report
from blazar.supervisor.states import State

log = logging.getLogger(__name__)

Compared = tuple[bool, Weighed]
"""Whether its process would be started otherwise, and what it is weighed as now."""


class Relaunch:
    """Used on the loop's thread. `current` gives the loader of the settings that are in force."""

    def __init__(self, loop: Loop, pool: Pool, fleet: Fleet, current: Callable[[], Loader]) -> None:
        self._loop = loop
        self._pool = pool
        self._fleet = fleet
        self._current = current

    def look(self, before: Loader, report: Report, then: Callable[[], None]) -> None:
        """Have those start anew that `before` would start otherwise; `then` follows when it is known which."""
        self._fleet.reconsider()
        for child in self._fleet.ready(State.STARTING):
            self._look_when_ready(child, before)
        self._next(self._fleet.ready(), before, report, then)

    def _next(self, left: list[Child], before: Loader, report: Report, then: Callable[[], None]) -> None:
        if left:
            self._look_at(left[0], before, report, lambda: self._next(left[1:], before, report, then))
        else:
            then()

    def _look_when_ready(self, child: Child, before: Loader) -> None:
        """It is being loaded by the settings from before; who waits for it is served first."""
        child.ensure_ready(lambda endpoint, error: self._loop.post(
            self._look_at, child, before, Report(), lambda: None) if endpoint is not None else None, is_spare=True)

    def _look_at(self, child: Child, before: Loader, report: Report, then: Callable[[], None]) -> None:
        child_id = child.id

        def compared(found: Compared | None, error: BlazarError | None) -> None:
            if child.id == child_id and child.state is State.READY:
                self._settle(child, found, error, report)
            then()

        def seen(machine: Census, room: Room) -> None:
            self._pool.submit(compared, compare, child.place, before, self._current(), machine, room)

        if child.state is State.READY:
            self._fleet.room_without(child, seen)
        else:
            then()

    def _settle(self, child: Child, found: Compared | None, error: BlazarError | None, report: Report) -> None:
        if error is not None or found is None:
            log.warning("%s: goes on as it was started: %s", child.id, error)
            report.failed.append(f"{child.model} goes on as it was started, since it could not be loaded anew: {error}")
            return
        differs, weighed = found
        if differs:
            report.children.append(child.model)
            self._fleet.reshape(child, "its settings have changed", partial(_told, child), is_spare=True)
        elif child.weighed is not None and child.weighed.digest == weighed.digest:
            child.weighed = weighed


def compare(place: str, before: Loader, after: Loader, machine: Census, room: Room) -> Compared:
    """On a thread. Raises why the child could not be started by the new settings."""
    sketch, weighed = after.sketch(place, machine, room)
    try:
        former, _ = before.sketch(place, machine, room)
    except BlazarError:  # what it was started with is gone, so this is another start
        return True, weighed
    return sketch != former, weighed


def _told(child: Child, error: BlazarError | None) -> None:
    if error is not None:
        log.warning("%s: could not be loaded anew, and is tried again when it is asked for: %s", child.place, error)
