"""`Finished`: the last requests that have ended, in memory: the lines of the audit log, whether or not there is one."""

from collections import deque
from collections.abc import Callable
from typing import Any

from blazar.proxy.json import loads

MOST = 512
"""Requests that are kept. A line has names and numbers only, each of a limited length, so all take a MiB at most."""


class Finished:
    """To add one is to append to a ring."""

    def __init__(self, most: int = MOST) -> None:
        self._ring: deque[tuple[bytes, str]] = deque(maxlen=most)
        self.catch_up: Callable[[], None] = _nothing
        """Adds those that have ended and are not here yet."""

    def add(self, line: bytes, path: str) -> None:
        """Keep the audit line of a request to `path`. It is read only if somebody looks."""
        self._ring.append((line, path))

    def last(self, count: int, key: str | None) -> list[dict[str, Any]]:
        """The newest ones, at most `count`, of the API key of that name, or of all for None; the newest first."""
        self.catch_up()
        found: list[dict[str, Any]] = []
        for written, path in reversed(self._ring):
            if len(found) >= count:
                break
            line = loads(written)
            if key is None or line["key"] == key:
                found.append({**line, "path": path})
        return found


def _nothing() -> None:
    """All are here."""
