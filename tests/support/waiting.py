"""Wait for something to become true, with a deadline, instead of sleeping for a guessed time."""

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def until(probe: Callable[[], T], limit: float = 10.0, what: str = "") -> T:
    """The first true value of `probe()`; fails the test after `limit` seconds."""
    deadline = time.monotonic() + limit
    while True:
        found = probe()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {limit:g} s: {what or probe}; last value {found!r}")
        time.sleep(0.02)
