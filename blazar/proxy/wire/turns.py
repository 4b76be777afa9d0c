"""`Turns`: new requests begin a few at a time, and answers under way come in between.

Otherwise, when many clients ask at once, each would wait until the requests of all the others were read: the first
answer would leave after the last request was begun.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final

MOST: Final = 4
"""Requests begun in one turn of the event loop."""


class Turns:
    """`begin` is called from the loop; nothing waits while there is only a little to do."""

    def __init__(self, loop: Any) -> None:
        self._loop = loop
        self._waiting: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._turn = -1.0
        """Which turn of the loop it is: the time at which it began."""
        self._begun = 0
        """Requests begun in it."""
        self._each_turn = loop.check()
        self._no_rest = loop.idle()
        """Keeps the loop turning while somebody waits."""

    def begin(self, call: Callable[[Any], None], found: Any) -> None:
        """Call `call` with `found` now, or in a later turn."""
        if not self._waiting and self._room():
            self._begun += 1
            call(found)
            return
        self._waiting.append((call, found))
        if len(self._waiting) == 1:
            self._each_turn.start(self._go_on)
            self._no_rest.start(_rest)

    def _room(self) -> bool:
        now = self._loop.now()
        if now != self._turn:
            self._turn, self._begun = now, 0
        return self._begun < MOST

    def _go_on(self) -> None:
        while self._waiting and self._room():
            self._begun += 1
            call, found = self._waiting.popleft()
            call(found)
        if not self._waiting:
            self._each_turn.stop()
            self._no_rest.stop()


def _rest() -> None:
    """Nothing, but the loop does not sleep before it."""
