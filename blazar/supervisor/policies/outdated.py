"""Evicts a child whose file was replaced or removed in the store, so that the next request gets the new one, and one
whose socket was removed, so that it gets any."""

from blazar.supervisor.actions import Action, Evict
from blazar.supervisor.snapshot import Snapshot
from blazar.supervisor.states import State


def decide(snapshot: Snapshot) -> list[Action]:
    """One that is still loading is left to finish: those who wait for it are served first."""
    return [Evict(child.place, "its file or its socket was replaced or removed", "replaced")
            for child in snapshot.children if child.state is State.READY and child.outdated]
