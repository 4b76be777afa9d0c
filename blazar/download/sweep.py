"""Partials that nobody continues any more."""

import contextlib
import time
from pathlib import Path

from blazar.download.partial import part_of, remove, state_of, try_claim

DAY = 24 * 3600.0


def sweep(folder: Path, older_than_days: float, now: float | None = None) -> list[Path]:
    """Remove the partials in `folder` that nobody works on and that had no byte for so many days.

    The answer is the targets that they were for. What cannot be looked at or removed stays. `now` is a Unix time.
    """
    limit = (time.time() if now is None else now) - older_than_days * DAY
    removed = []
    for target in sorted(_targets(folder)):
        with contextlib.suppress(OSError):
            if _last_touched(target) < limit and _removed(target):
                removed.append(target)
    return removed


def _targets(folder: Path) -> set[Path]:
    """What the partials, states and scratch files of `folder` are for."""
    found = set()
    for suffix in (".part", ".part.json", ".part.json.new"):
        found |= {path.with_name(path.name.removesuffix(suffix)) for path in folder.glob("*" + suffix)}
    return found


def _last_touched(target: Path) -> float:
    """Unix time of the last change of what is there; 0 for a scratch file alone."""
    return max((path.stat().st_mtime for path in (part_of(target), state_of(target)) if path.exists()), default=0.0)


def _removed(target: Path) -> bool:
    """Remove the partial of `target`; False when somebody works on it."""
    partial = try_claim(target)
    if partial is None:
        return False
    with contextlib.closing(partial):
        remove(target)
    return True
