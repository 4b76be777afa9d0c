"""What deciders see: the children and who waits, at one moment. Times are CLOCK_MONOTONIC seconds."""

from dataclasses import dataclass

from blazar.supervisor.states import State


@dataclass(frozen=True)
class ChildView:
    """One child as a decider sees it; `keep_alive` is in seconds, negative for ever, 0 = not after this request."""

    place: str
    """What the child is called: its model, with a number behind it for further ones."""
    state: State
    keep_alive: float
    ready_at: float = 0.0
    last_used: float = 0.0
    in_flight: int = 0
    asked_at: float = 0.0
    """When the oldest waiting request came; only for a queued child."""
    not_before: float = 0.0
    """When a queued child may start at the earliest, after a crash."""
    pinned: bool = False
    """Whether it is not to go for others."""
    outdated: bool = False
    """Whether its file is no longer the one that the store has under this name."""
    sleeps_after: float = 0.0
    """Seconds without a request after which its engine forgets its slots; 0 = never, or they are not saved."""
    saved_at: float = 0.0
    """When its slots were last saved."""
    is_spare: bool = False
    """Whether nobody waits for it: it starts at once, into free room, or not at all."""


@dataclass(frozen=True)
class Snapshot:
    children: tuple[ChildView, ...] = ()
