"""When a download that was left is given up: the one rule for every folder in which partials lie."""

import time
from pathlib import Path

KEPT = 14 * 86_400.0
"""Seconds that what has come of a download is kept when nobody goes on with it."""


def is_given_up(folder: Path, now: float | None = None) -> bool:
    """Whether nothing in `folder` has changed for KEPT seconds. `now` is a Unix time. Raises OSError.

    Whether somebody works in it is for the caller to know, who holds its lock.
    """
    last = max(entry.stat().st_mtime for entry in (folder, *folder.iterdir()))
    return (time.time() if now is None else now) - last > KEPT
