"""Evicts a child that nobody has used for its keep-alive time."""

from blazar.supervisor.actions import Evict
from blazar.supervisor.snapshot import Snapshot
from blazar.supervisor.states import State

FIRST_USE = 5.0
"""Seconds that a child waits for the request it was loaded for, even when it is to go right after it."""


def decide(now: float, snapshot: Snapshot) -> list[Evict]:
    """The clock of a child runs from the end of its last request, and stands still while one is in flight."""
    actions: list[Evict] = []
    for child in snapshot.children:
        if child.state is not State.READY or child.in_flight or child.keep_alive < 0:
            continue
        idle = now - max(child.ready_at, child.last_used)
        unused = child.last_used < child.ready_at
        if idle >= (max(child.keep_alive, FIRST_USE) if unused else child.keep_alive):
            actions.append(Evict(child.place, f"idle for {idle:.0f} s", "idle"))
    return actions
