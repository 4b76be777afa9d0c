"""What deciders see: the children and who waits, at one moment. Times are CLOCK_MONOTONIC seconds."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from blazar.planner.need import Offer
from blazar.planner.plan import Refusal
from blazar.planner.room import Held, Room
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
    held: Held = field(default_factory=Held)
    """What it takes of each memory, while it may have a process."""
    offer: Callable[[Room], Offer | Refusal] | None = None
    """How a queued child would be loaded into some room; None while that is not known yet."""
    group: str = ""
    """Models of one group are not loaded together."""
    exclusive: bool = False
    """Whether no other model may be loaded beside it."""
    cost: int = 1
    """How much it is worth keeping."""
    sleeps_after: float = 0.0
    """Seconds without a request after which its engine forgets its slots; 0 = never, or they are not saved."""
    saved_at: float = 0.0
    """When its slots were last saved."""
    is_spare: bool = False
    """Whether nobody waits for it: it starts into room that is free, or on its way back, or not at all."""


@dataclass(frozen=True)
class Memory:
    """What is free of each memory, in bytes by its key; a key that is missing is not known."""

    soon: Mapping[str, int] = field(default_factory=dict)
    """Once those that load have all that they want, and those that ended have given all back."""
    now: Mapping[str, int] = field(default_factory=dict)
    """The same without what is not back yet."""
    late: bool = False
    """Whether something is not back yet, so that it pays to look again."""


@dataclass(frozen=True)
class Snapshot:
    children: tuple[ChildView, ...] = ()
    memory: Memory = field(default_factory=Memory)
