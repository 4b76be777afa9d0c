"""Waiting in a test that has an event loop of its own."""

from collections.abc import Callable
from typing import Any

import gevent


def turning(check: Callable[[], Any], seconds: float = 5.0) -> Any:
    """The first true value of `check`, asked again after each turn of the loop."""
    with gevent.Timeout(seconds, AssertionError(f"not within {seconds} s: {check}")):
        while not (value := check()):
            gevent.sleep(0.001)
    return value
