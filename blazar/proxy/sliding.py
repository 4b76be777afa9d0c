"""`SlidingWindow`: how much there was of something in the last minute."""

from array import array

WINDOW = 60
"""Seconds that a window counts."""
STEPS = 10
"""Of a second, in which a window counts: what happens within one step leaves together, at most 0.1 s late."""
SPAN = WINDOW * STEPS
"""Steps that a window counts besides the one under way."""
PLACES = SPAN + 1


def step_at(now: float) -> int:
    """The step that a moment of CLOCK_MONOTONIC falls into."""
    return int(now * STEPS)


class SlidingWindow:
    """The sum of the amounts of the last WINDOW seconds, with a place for each step, so that it does not grow."""

    def __init__(self) -> None:
        self._amounts = array("q")
        """By step, round and round; there are none before the first amount."""
        self._first, self._last = 0, -1
        """The steps between which amounts stand."""
        self._total = 0

    def add(self, step: int, amount: int) -> None:
        """Count what came in that step: a new one, or one for which there is still a place."""
        if step != self._last and not self._reach(step):
            return
        self._amounts[step % PLACES] += amount
        self._total += amount

    def _reach(self, step: int) -> bool:
        """Whether there is a place for this step now."""
        if not self._amounts:
            self._amounts = array("q", bytes(8 * PLACES))
        if step > self._last:
            self._drop(step - SPAN)
            self._last = step
        elif step < self._last - SPAN:
            return False
        elif step < self._first:
            self._first = step
        return True

    def total(self, now: float) -> int:
        oldest = int(now * STEPS) - SPAN
        if self._first < oldest:
            self._drop(oldest)
        return self._total

    def clears(self, now: float) -> float:
        """Seconds until nothing counts any more, of what has come so far."""
        return max(0.0, (self._last + SPAN + 1) / STEPS - now) if self.total(now) else 0.0

    def wait(self, now: float, most: int) -> float:
        """Seconds until the sum is no more than `most`."""
        left = self.total(now)
        for step in range(self._first, self._last + 1):
            if left <= most:
                break
            left -= self._amounts[step % PLACES]
            if left <= most:
                return max(0.0, (step + SPAN + 1) / STEPS - now)
        return 0.0

    def _drop(self, oldest: int) -> None:
        """Take out what stands before step `oldest`."""
        while self._total and self._first < oldest:
            place = self._first % PLACES
            self._total -= self._amounts[place]
            self._amounts[place] = 0
            self._first += 1
        if self._first < oldest:
            self._first = oldest
