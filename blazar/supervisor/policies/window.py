"""Looks at one child over a while: how often more requests were there than it has slots."""

from dataclasses import dataclass

LENGTH = 60.0
"""Seconds of a window."""
SATURATED, QUIET = 0.9, 0.1
"""Shares of the looks in which requests waited: from the one on a window is saturated, up to the other it is quiet."""


@dataclass(frozen=True)
class Window:
    """What was seen since the time `began`, in seconds of the clock that `look` is told."""

    began: float
    looks: int = 0
    waited: int = 0
    """Looks at which requests waited for a slot."""

    def look(self, waits: bool) -> "Window":
        return Window(self.began, self.looks + 1, self.waited + waits)

    def is_over(self, now: float) -> bool:
        return now - self.began >= LENGTH

    @property
    def share(self) -> float:
        return self.waited / self.looks if self.looks else 0.0

    @property
    def saturated(self) -> bool:
        return self.share >= SATURATED

    @property
    def quiet(self) -> bool:
        return self.share <= QUIET
