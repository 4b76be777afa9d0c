"""Makes room for waiting models: the least recently used child goes, one with nothing in flight before a busy one."""

from blazar.supervisor.actions import Action, Evict, Refuse, Wake
from blazar.supervisor.snapshot import ChildView, Snapshot
from blazar.supervisor.states import LIVE, State

FULL = "all places of max_loaded_models ({limit}) hold models that are pinned; raise it, or take `pin` from one of them"
RESIDENCE = 0.5
"""Seconds a child stays at least, so that those who waited for it get their turn when two models alternate."""


def decide(now: float, snapshot: Snapshot, max_loaded: int) -> list[Action]:
    """Evictions that give every waiting model a place in the end; none while enough are on their way out.

    Pinned models stay; when they have every place, who waits is refused.
    """
    if not max_loaded:
        return []
    live = [child for child in snapshot.children if child.state in LIVE]
    waiting = [child for child in snapshot.children
               if child.state is State.QUEUED and child.not_before <= now and not child.is_spare]
    leaving = sum(child.state in (State.DRAINING, State.STOPPING) for child in live)
    if sum(child.pinned for child in live) >= max_loaded:
        return [Refuse(child.place, FULL.format(limit=max_loaded)) for child in waiting]
    ready = sorted((child for child in live if child.state is State.READY and not child.pinned), key=_worth)
    missing = min(len(waiting), max_loaded) - leaving - max(0, max_loaded - len(live))
    actions: list[Action] = []
    for child in ready[:max(0, missing)]:
        young = child.ready_at + RESIDENCE - now
        actions.append(Wake(young) if young > 0 else Evict(child.place, "room for a waiting model"))
    return actions


def _worth(child: ChildView) -> tuple[bool, float]:
    return child.in_flight > 0, max(child.last_used, child.ready_at)
