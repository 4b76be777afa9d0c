"""`WorkerCounts`: what all gateway workers count, as one. What a worker had counted does not go with it."""

from collections.abc import Mapping

from blazar.supervisor import processes
from blazar.telemetry.exposition import Family, summed

STAYS = ("counter", "histogram")
"""Kinds whose numbers only grow."""


class WorkerCounts:
    """Used on the loop's thread."""

    def __init__(self) -> None:
        self._told: dict[int, list[Family]] = {}
        """What each worker told last, by its process."""
        self._gone: list[Family] = []
        """The sums of those that are gone."""
        self._present: set[int] = set()

    def take(self, told: Mapping[int, list[Family]]) -> None:
        """What the workers tell that have answered just now."""
        self._present = set(told)
        self._told |= told
        for pid in [pid for pid in self._told if pid not in told and not processes.is_alive(pid)]:
            self._gone = summed([self._gone, _lasting(self._told.pop(pid))])

    def keep(self, pid: int, told: list[Family]) -> None:
        """What one worker tells that ends now, so that nothing is missing that came after the last page."""
        self._present.discard(pid)
        self._told[pid] = told

    def families(self) -> list[Family]:
        """The sums. Of a worker that did not answer, its counts as it told them last."""
        return summed([*(found if pid in self._present else _lasting(found) for pid, found in self._told.items()),
                       self._gone])


def _lasting(families: list[Family]) -> list[Family]:
    return [family for family in families if family.kind in STAYS]
