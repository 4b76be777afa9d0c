"""The one door to gevent for everything outside `wire/`: greenlets, their events and their sleep."""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from gevent import Timeout, get_hub, getcurrent, sleep, spawn
from gevent.event import Event
from gevent.hub import Waiter

__all__ = ["Event", "Pace", "Timeout", "aside", "interrupter", "sleep", "soon", "spawn"]

TURN = 0.003
"""Seconds after which others have their turn."""
MOMENT = 1e-6
"""Seconds of a sleep in which the loop looks at its sockets; with 0 it would come back fifty times before it does."""

log = logging.getLogger(__name__)


class Pace:
    """Called between the steps of something long, it lets everything else run every few milliseconds."""

    def __init__(self) -> None:
        self._since = 0.0

    def __call__(self) -> None:
        if time.perf_counter() - self._since > TURN:
            sleep(MOMENT)
            self._since = time.perf_counter()


def aside(call: Callable[..., Any], *args: Any) -> Any:
    """The result of a call that may wait for the disk, made on a real thread while everything else runs on."""
    result, error = get_hub().threadpool.apply(_told, (call, args))
    if error is not None:
        raise error
    return result


def _told(call: Callable[..., Any], args: tuple[Any, ...]) -> tuple[Any, Exception | None]:
    """What a call gives, or raises: gevent would print what is raised on its threads."""
    try:
        return call(*args), None
    except Exception as error:
        return None, error


def soon(call: Callable[[], None], seconds: float) -> Callable[[], None]:
    """A function that has `call` made so many seconds later, by a greenlet of its own; once, however often it is
    called until then."""
    timer, waiter = get_hub().loop.timer(0.0, repeat=seconds), Waiter()

    def make_calls() -> None:
        while True:
            waiter.get()
            waiter.clear()
            try:
                call()
            except Exception:
                log.exception("what was put off has failed")

    def wake() -> None:
        timer.stop()
        waiter.switch(None)

    def begin() -> None:
        if not timer.active:
            timer.again(wake)
    spawn(make_calls)
    return begin


@contextmanager
def interrupter(reason: Callable[[], BaseException]) -> Iterator[Callable[[], None]]:
    """Gives a function that raises `reason()` in the greenlet which is within this; safe in event-loop callbacks.

    It does so in the next turn of the loop, once. A greenlet that has left by then is let be: it may rest, or serve
    another client.
    """
    waiting: Any = getcurrent()
    asked = False

    def interrupt() -> None:
        nonlocal asked
        if waiting is not None and not asked:
            asked = True
            get_hub().loop.run_callback(throw, reason())

    def throw(error: BaseException) -> None:
        if waiting is not None:
            waiting.throw(error)
    try:
        yield interrupt
    finally:
        waiting = None
