"""`Outlook`: the free memory that the system shows, and what it will be once what is under way has come to pass.

While a child loads, or has just ended, what the system shows is on its way. Then the last calm look counts, with what
children have taken and given back since then.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from blazar.hardware.census import Census
from blazar.hardware.cpu import Cpu
from blazar.hardware.memory import Memory as MainMemory
from blazar.planner.room import MAIN_MEMORY, Held
from blazar.supervisor.snapshot import Memory

LATE = 5.0
"""Seconds for which memory of a child that has ended is waited for."""


@dataclass(frozen=True)
class Ended:
    held: Held
    until: float
    """When it is no longer waited for."""


@dataclass
class Outlook:
    census: Census = field(default_factory=lambda: Census(Cpu(""), MainMemory()))
    """The last look."""
    _calm: dict[str, int] = field(default_factory=dict)
    _since: dict[str, int] = field(default_factory=dict)
    """What has been taken (below 0) and given back since the calm look."""
    _ended: list[Ended] = field(default_factory=list)

    def started(self, held: Held) -> None:
        self._changed(held, -1)

    def ended(self, held: Held, now: float) -> None:
        self._changed(held, 1)
        if held.sizes:
            self._ended.append(Ended(held, now + LATE))

    def look(self, census: Census, quiet: bool, now: float) -> None:
        """Take in what was seen; `quiet` says that no child is loading or ending."""
        self.census = census
        shown, soon = free_of(census), self._soon()
        waited = [one for one in self._ended if one.until > now]
        self._ended = [one for one in waited if not all(shown.get(key, size) >= size for key, size in soon.items()
                                                        if key in one.held.sizes)]
        if not self._calm or (quiet and not self._ended):
            self._calm, self._since = shown, {}

    def memory(self, loading: list[Held]) -> Memory:
        """`loading` is what children that are loading will have."""
        soon = self._soon()
        if not self._ended:
            return Memory(soon, soon)
        shown = free_of(self.census)
        now = {key: min(size, shown.get(key, size) - sum(held.shown(key) for held in loading))
               for key, size in soon.items()}
        return Memory(soon, now, late=True)

    def _soon(self) -> Mapping[str, int]:
        return {key: size + self._since.get(key, 0) for key, size in self._calm.items()}

    def _changed(self, held: Held, sign: int) -> None:
        for key in held.sizes:
            self._since[key] = self._since.get(key, 0) + sign * held.shown(key)


def free_of(census: Census) -> dict[str, int]:
    """What is free of each memory, by its key, as far as the census tells."""
    found = {gpu.bus or gpu.name or "": gpu.free for gpu in census.gpus or ()}
    return {key: size for key, size in {**found, MAIN_MEMORY: census.memory.free}.items() if key and size is not None}
