"""One limit on the bytes of a second, shared by everything that downloads in this process."""

import threading
import time
from collections.abc import Callable

MEGABYTE = 1_000_000

BURST = 1.0
"""Seconds' worth of bytes that may come at once after a pause."""


class Bucket:
    """A token bucket: lanes take what they have read and wait for as long as it was too much. Rate 0 = no limit.

    A lane takes before it waits, so the level may fall below zero; the next one then waits for both.
    """

    def __init__(self, rate_bytes_per_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.rate = float(max(0, rate_bytes_per_s))
        self._clock = clock
        self._lock = threading.Lock()
        self._level = self.rate * BURST
        self._filled = clock()

    def take(self, count: int, wait: Callable[[float], object] = time.sleep) -> None:
        """Pay for `count` bytes, by `wait(seconds)` when they came too early."""
        if not self.rate:
            return
        with self._lock:
            now = self._clock()
            self._level = min(self.rate * BURST, self._level + (now - self._filled) * self.rate) - count
            self._filled = now
            owed = -self._level
        if owed > 0:
            wait(owed / self.rate)


def bucket_of(download_speed_limit_mb: int) -> Bucket | None:
    """The bucket of the setting of that name, in MB a second; None when there is no limit."""
    return Bucket(download_speed_limit_mb * MEGABYTE) if download_speed_limit_mb > 0 else None
