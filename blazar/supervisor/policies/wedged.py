"""When a child counts as wedged: it is asked for its slots because requests to it bring nothing. Pure.

An engine that is in the middle of a large batch may not answer for a while, but then it uses the processor. One that
says that it works has to change something from one look to the next.
"""

from dataclasses import dataclass
from typing import Any

RESTING = 3
"""Ticks of processor time, usually hundredths of a second, within which a process has done nothing."""


@dataclass(frozen=True)
class Look:
    """What was seen of a child. `slots` is its answer, None when there was none; `used` are the ticks of processor time
    that it used meanwhile, `total` all that it ever used."""

    slots: Any
    used: int
    total: int


def is_wedged(now: Look, before: Look | None = None) -> bool:
    """Whether the child does nothing for anybody. `before` is an earlier look, since which an answer that had begun has
    brought nothing more."""
    if now.slots is None:
        return now.used < RESTING
    works = _works(now.slots)
    if works and before is not None:
        return now.slots == before.slots and now.total - before.total < RESTING
    return works is False


def _works(slots: Any) -> bool | None:
    """Whether any slot has something to do; None when the engine does not tell."""
    if not slots or not isinstance(slots, list) \
            or not all(isinstance(slot, dict) and "is_processing" in slot for slot in slots):
        return None
    return any(slot["is_processing"] for slot in slots)
