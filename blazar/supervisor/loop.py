"""The one run loop. All state of the supervisor changes on its thread, the main thread, and nowhere else.

Other threads and signal handlers `post` calls; `later` sets a timer. Engines and gunicorn are started from here
too: Linux ends them when the *thread* that forked them ends.
"""

import heapq
import itertools
import logging
import queue
import time
from collections.abc import Callable
from typing import Any

log = logging.getLogger(__name__)


class Timer:
    """A call to come; `cancel` makes it never come."""

    def __init__(self, call: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.call = call
        self.args = args
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Loop:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.now = clock
        self._calls: queue.SimpleQueue[tuple[Callable[..., object], tuple[Any, ...]]] = queue.SimpleQueue()
        self._timers: list[tuple[float, int, Timer]] = []
        self._numbers = itertools.count()
        self._running = True

    def post(self, call: Callable[..., object], *args: Any) -> None:
        """Have `call(*args)` run on the loop. Safe from any thread, and from a signal handler."""
        self._calls.put((call, args))

    def later(self, seconds: float, call: Callable[..., object], *args: Any) -> Timer:
        timer = Timer(call, args)
        heapq.heappush(self._timers, (self.now() + seconds, next(self._numbers), timer))
        return timer

    def run(self) -> None:
        """Take calls and timers until `end`."""
        while self._running:
            self.turn()

    def end(self) -> None:
        self._running = False

    def turn(self, longest: float = 60.0) -> None:
        """Run one posted call, or wait for one up to the next timer, then run the timers that are due."""
        wait = min(longest, self._timers[0][0] - self.now()) if self._timers else longest
        try:
            call, args = self._calls.get(timeout=max(0.0, wait))
        except queue.Empty:
            pass
        else:
            _guarded(call, args)
        while self._timers and self._timers[0][0] <= self.now():
            timer = heapq.heappop(self._timers)[2]
            if not timer.cancelled:
                _guarded(timer.call, timer.args)


def _guarded(call: Callable[..., object], args: tuple[Any, ...]) -> None:
    """One faulty call must not end the supervisor with all its children."""
    try:
        call(*args)
    except Exception:
        log.exception("a call on the run loop failed: %r", call)
