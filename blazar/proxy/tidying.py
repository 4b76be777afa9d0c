"""`Tidying`: what a busy time has left goes back to the system once nothing has been asked of a model for a while.

Many requests at a time take memory for all of them. When they have gone it lies free between what stays, and the C
library keeps it; what refers to itself stays until Python has ten thousand more objects to look at. Both would add up
to some MiB that a gateway at rest has no use for, and more after large bodies.
"""

import gc
from collections.abc import Callable
from typing import Final

QUIET: Final = 60.0
"""Seconds after the last use of a child. What is given back is asked for again, a page at a time, at the next busy
time: so not between one question and the next."""
YOUNG, ALL = 1, 2
"""Generations of objects up to which cycles are looked for; with all, Python lets go of room it has at hand, too."""


class Tidying:
    """`look` once a second. It takes about a millisecond when something is to be done, and then once."""

    def __init__(self, give_back: Callable[[], None] | None = None) -> None:
        """`give_back` takes the place of the C library's own call."""
        self._give_back = give_back
        self._done_for: float | None = None
        """The last use after which all was tidied."""

    def look(self, now: float, last_use: float | None) -> None:
        """`last_use` is when a child was last used, of CLOCK_MONOTONIC; None while one is, or before the first."""
        if last_use is None or last_use == self._done_for or now - last_use <= QUIET:
            return
        self._done_for = last_use
        if self._give_back is None:
            self._give_back = _of_c_library()
        # In our own worker what stays is frozen. Under another server all there is would take some 50 ms.
        gc.collect(ALL if gc.get_freeze_count() else YOUNG)
        self._give_back()


def _of_c_library() -> Callable[[], None]:
    """What has free memory given back: glibc's own call; nothing where it has none."""
    try:
        from ctypes import CDLL  # takes some 0.3 MiB, and is not needed before something has been asked
        trim = CDLL(None).malloc_trim
    except (ImportError, OSError, AttributeError):
        return _nothing
    return lambda: trim(0)


def _nothing() -> None:
    """It does so by itself, or never."""
