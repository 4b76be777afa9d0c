"""Parks the speculation of a model that does not gain by it, and takes it up again when the model is quiet."""

from dataclasses import dataclass, replace

from blazar.supervisor.policies.window import Window

COLLAPSE = 0.15
"""Share of drafted tokens below which drafting is a waste."""
BAD, GOOD = 2, 10
"""Windows in a row after which speculation is parked, and quiet ones after which it is restored."""
ENOUGH = 64
"""Drafted tokens without which a window says nothing of how good they are."""


@dataclass(frozen=True)
class Governed:
    """Where one child stands."""

    parked: bool = False
    bad: int = 0
    quiet: int = 0

    @property
    def name(self) -> str:
        return "parked" if self.parked else "active"


def acceptance(drafted: int, accepted: int) -> float | None:
    """The share of drafts that were right in a window; None when there were too few to tell."""
    return accepted / drafted if drafted >= ENOUGH else None


def window_over(state: Governed, window: Window, accepted: float | None) -> Governed:
    """After a window, with the share of drafts that were right in it, None = not known."""
    if state.parked:
        quiet = state.quiet + 1 if window.quiet else 0
        return Governed() if quiet >= GOOD else replace(state, quiet=quiet)
    is_bad = window.saturated or (accepted is not None and accepted < COLLAPSE)
    bad = state.bad + 1 if is_bad else 0
    return Governed(parked=True) if bad >= BAD else Governed(bad=bad)
