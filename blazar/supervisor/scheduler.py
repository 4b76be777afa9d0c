"""Which waiting model may start now. Pure: same snapshot, same answer."""

from blazar.supervisor.actions import Action, Refuse, Start, Wake
from blazar.supervisor.snapshot import Snapshot
from blazar.supervisor.states import LIVE, State

NO_ROOM = "there is no room for it now, and what is loaded ahead of requests makes no other model go"


def decide(now: float, snapshot: Snapshot, max_loaded: int) -> list[Action]:
    """Start waiting models, oldest first, as far as `max_loaded` (0 = no limit) has room."""
    live = sum(child.state in LIVE for child in snapshot.children)
    waiting = sorted((child for child in snapshot.children if child.state is State.QUEUED),
                     key=lambda child: child.asked_at)
    actions: list[Action] = []
    for child in waiting:
        if child.not_before <= now and (not max_loaded or live < max_loaded):
            actions.append(Start(child.place))
            live += 1
        elif child.is_spare:
            actions.append(Refuse(child.place, NO_ROOM))
        elif child.not_before > now:
            actions.append(Wake(child.not_before - now))
    return actions
