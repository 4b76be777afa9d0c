"""How often, and after what pause, a server that fails is asked again."""

import email.utils
import re
import threading
import time
from collections.abc import Callable, Sequence

DELAYS = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Seconds before each further try while nothing comes. The first byte that comes starts the list anew."""

LONGEST_PAUSE = 60.0
"""Seconds of a Retry-After that we wait for; a longer one is told to the person."""

PAUSES = 180.0
"""Seconds of such pauses in one download, in all."""


class Patience:
    """Counts the failures of one download, for all its lanes. `sleep` gets the seconds of each pause."""

    def __init__(self, sleep: Callable[[float], object], delays: Sequence[float] = DELAYS) -> None:
        self._sleep = sleep
        self._delays = delays
        self._lock = threading.Lock()
        self._failures = 0
        self._paused = 0.0

    def came(self) -> None:
        """Something new came, so the line works."""
        self._failures = 0

    def again(self, at_once: bool) -> bool:
        """Sleep before the next try; False when there were enough. `at_once` = this try brought something."""
        if at_once:
            return True
        with self._lock:
            if self._failures >= len(self._delays):
                return False
            delay = self._delays[self._failures]
            self._failures += 1
        self._sleep(delay)
        return True

    def pause(self, seconds: float) -> bool:
        """Do as the server asks and wait, a second at least; False when that would be too long."""
        with self._lock:
            if seconds > LONGEST_PAUSE or self._paused + seconds > PAUSES:
                return False
            seconds = max(1.0, seconds)
            self._paused += seconds
        self._sleep(seconds)
        return True


def retry_after(value: str | None, now: Callable[[], float] = time.time) -> float | None:
    """The seconds that a Retry-After header means, a number or a date; None when it means nothing."""
    if value is None:
        return None
    if re.fullmatch(r"[0-9]{1,9}", value.strip()):
        return float(value)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value.strip()).timestamp() - now())
    except (TypeError, ValueError, OverflowError):
        return None
