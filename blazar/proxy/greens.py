"""The one door to gevent for everything outside `wire/`: greenlets, their events and their sleep."""

from collections.abc import Callable

from gevent import Timeout, getcurrent, kill, sleep, spawn

__all__ = ["Timeout", "give_way", "interrupter", "sleep", "spawn"]


def give_way() -> None:
    """Let everything run that can, before going on with something long."""
    sleep(0)


def interrupter(reason: Callable[[], BaseException]) -> Callable[[], None]:
    """A function that raises `reason()` in the greenlet which called this one; safe in event-loop callbacks."""
    waiting = getcurrent()
    return lambda: kill(waiting, reason())
