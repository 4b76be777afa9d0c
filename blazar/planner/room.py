"""`Held` and `Room`: what children have of each memory, and what that leaves. Pure; all sizes are bytes."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

MAIN_MEMORY = "main memory"


@dataclass(frozen=True)
class Held:
    """What one child takes of each memory, by its key."""

    sizes: Mapping[str, int] = field(default_factory=dict)
    mapped: int = 0
    """How much of main memory are pages of its file, which the system counts as free though they are in use."""

    def shown(self, key: str) -> int:
        """How much less is free of that memory, as the system tells it."""
        return self.sizes.get(key, 0) - (self.mapped if key == MAIN_MEMORY else 0)


@dataclass(frozen=True)
class Room:
    """What there is for one more model."""

    taken: Mapping[str, int] = field(default_factory=dict)
    """Of each memory, what others are to have."""
    free: Mapping[str, int] = field(default_factory=dict)
    """Of each memory, what nobody uses; a key that is missing is not known."""

    def least(self, other: "Room") -> "Room":
        """What both leave."""
        taken = {key: max(self.taken.get(key, 0), other.taken.get(key, 0)) for key in {*self.taken, *other.taken}}
        free = {key: min(room.free[key] for room in (self, other) if key in room.free)
                for key in {*self.free, *other.free}}
        return Room(taken, free)


def room_beside(free: Mapping[str, int], staying: Iterable[Held], coming: Iterable[Held] = (),
                going: Iterable[Held] = ()) -> Room:
    """`free` is what the system shows while `staying` and `going` hold theirs and `coming` do not yet."""
    staying, coming, going = list(staying), list(coming), list(going)
    taken: dict[str, int] = {}
    for held in (*staying, *coming):
        for key, size in held.sizes.items():
            taken[key] = taken.get(key, 0) + size
    left = {key: size + sum(held.shown(key) for held in going) - sum(held.shown(key) for held in coming)
            for key, size in free.items()}
    if MAIN_MEMORY in left:
        left[MAIN_MEMORY] -= sum(held.mapped for held in (*staying, *coming))
    return Room(taken, {key: max(0, size) for key, size in left.items()})
