"""The one door to gevent for everything outside `wire/`: greenlets, their events and their sleep."""

import time
from collections.abc import Callable

from gevent import Timeout, getcurrent, kill, sleep, spawn

__all__ = ["Pace", "Timeout", "interrupter", "sleep", "spawn"]

TURN = 0.003
"""Seconds after which others have their turn."""
MOMENT = 1e-6
"""Seconds of a sleep in which the loop looks at its sockets; with 0 it would come back fifty times before it does."""


class Pace:
    """Called between the steps of something long, it lets everything else run every few milliseconds."""

    def __init__(self) -> None:
        self._since = 0.0

    def __call__(self) -> None:
        if time.perf_counter() - self._since > TURN:
            sleep(MOMENT)
            self._since = time.perf_counter()


def interrupter(reason: Callable[[], BaseException]) -> Callable[[], None]:
    """A function that raises `reason()` in the greenlet which called this one; safe in event-loop callbacks."""
    waiting = getcurrent()
    return lambda: kill(waiting, reason())
