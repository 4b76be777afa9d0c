"""`SlidingWindow`: how much there was of something in the last minute."""

from array import array
from typing import Final

WINDOW: Final = 60
"""Seconds that a window counts."""
STEPS: Final = 10
"""Of a second, in which a window counts: what happens within one step leaves together, at most 0.1 s late."""
SPAN: Final = WINDOW * STEPS
"""Steps that a window counts besides the one under way."""
PLACES: Final = SPAN + 1


def step_at(now: float) -> int:
    """The step that a moment of CLOCK_MONOTONIC falls into."""
    return int(now * STEPS)


class SlidingWindow:
    """The sum of the amounts of the last WINDOW seconds, with a place for each step, so that it does not grow.

    What comes in the step under way is added to `sum` alone, and gets its place when that step is over.
    """

    def __init__(self) -> None:
        self.sum = 0
        """All that counts in the step under way."""
        self._placed = 0
        """As much of it as has its place."""
        self._amounts = array("q")
        """By step, round and round; there are none before the first amount."""
        self._step = -1
        """The one under way: that to which it was moved last."""
        self._first, self._last = 0, -1
        """The steps between which amounts stand."""

    def move(self, step: int) -> None:
        """Let this be the step under way, if it is later than the one that is."""
        if step > self._step:
            if self.sum != self._placed:
                self._place(self._step, self.sum - self._placed)
            self._step = step
            oldest = step - SPAN
            if self._first < oldest:
                self._drop(oldest)

    def add(self, step: int, amount: int) -> None:
        """Count what came in that step: a new one, or one for which there is still a place."""
        self.move(step)
        if step == self._step:
            self.sum += amount
        elif step >= self._step - SPAN:
            self.sum += amount
            self._place(step, amount)

    def total(self, now: float) -> int:
        """The sum at a moment that is not before the step under way."""
        self.move(step_at(now))
        return self.sum

    def clears(self, now: float) -> float:
        """Seconds until nothing counts any more, of what has come so far."""
        if not self.total(now):
            return 0.0
        last = self._last if self.sum == self._placed else self._step
        return max(0.0, (last + SPAN + 1) / STEPS - now)

    def wait(self, now: float, most: int) -> float:
        """Seconds until the sum is no more than `most`."""
        left = self.total(now)
        if left <= most:
            return 0.0
        for step in range(self._first, self._last + 1) if self._placed else ():
            left -= self._amounts[step % PLACES]
            if left <= most:
                return max(0.0, (step + SPAN + 1) / STEPS - now)
        return max(0.0, (self._step + SPAN + 1) / STEPS - now) if most >= 0 else 0.0

    def _place(self, step: int, amount: int) -> None:
        if not self._amounts:
            self._amounts = array("q", bytes(8 * PLACES))
        self._amounts[step % PLACES] += amount
        self._placed += amount
        self._last = max(self._last, step)

    def _drop(self, oldest: int) -> None:
        """Take out what stands before step `oldest`."""
        while self._placed and self._first < oldest:
            place = self._first % PLACES
            amount, self._amounts[place] = self._amounts[place], 0
            self._placed -= amount
            self.sum -= amount
            self._first += 1
        self._first = max(self._first, oldest)
