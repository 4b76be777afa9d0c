"""Larger micro-batches for a model at which requests wait: prompts are read faster so. Smaller ones again later."""

from dataclasses import dataclass, replace

from blazar.supervisor.policies.spec_governor import BAD, GOOD
from blazar.supervisor.policies.window import Window

RUNGS = (0, 1024, 2048)
"""Tokens of --ubatch-size; 0 leaves it to the engine. Larger buffers than the last do not fit on small cards."""


@dataclass(frozen=True)
class Tier:
    """Where one child stands."""

    rung: int = 0
    bad: int = 0
    quiet: int = 0

    @property
    def tokens(self) -> int:
        return RUNGS[self.rung]

    @property
    def name(self) -> str:
        return str(self.tokens) if self.rung else "default"


def window_over(state: Tier, window: Window, most: int = RUNGS[-1]) -> Tier:
    """After a window; `most` tokens fit."""
    bad = state.bad + 1 if window.saturated else 0
    quiet = state.quiet + 1 if window.quiet and state.rung else 0
    if bad >= BAD and state.rung + 1 < len(RUNGS) and RUNGS[state.rung + 1] <= most:
        return Tier(state.rung + 1)
    if quiet >= GOOD:
        return Tier(state.rung - 1)
    return replace(state, bad=min(bad, BAD), quiet=quiet)
