"""Can the data dir be used, and is there a model in it?"""

import os
import shutil
from pathlib import Path
from shlex import quote

from blazar.doctor.check import Finding, Surroundings, user_name
from blazar.errors import BlazarError
from blazar.units import format_bytes

LOW_SPACE = 2 << 30
"""Bytes free under which pulling a model will likely fail."""


def check_data_dir(surroundings: Surroundings) -> Finding:
    folder = surroundings.located.paths.data_dir
    existing = _nearest_existing(folder)
    if os.statvfs(existing).f_flag & os.ST_RDONLY:
        return Finding("data dir", "fail", f"{folder} lies on a file system that is mounted read-only",
                       f'`sudo mount -o remount,rw "$(findmnt -nT {quote(str(existing))} -o TARGET)"`, or choose '
                       "another with --data-dir")
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        return Finding("data dir", "fail", f"{folder} cannot be written",
                       f"run as its owner, `sudo -u {user_name(existing.stat().st_uid)} blazar ...`, or choose another "
                       "with --data-dir")
    free = shutil.disk_usage(existing).free
    found = f"{folder}, {format_bytes(free)} free"
    if free < LOW_SPACE:
        return Finding("data dir", "warn", found,
                       f"make room, models need {format_bytes(LOW_SPACE)} and more: `blazar list` shows what they "
                       "take, `blazar rm MODEL` removes one")
    return Finding("data dir", "ok", found)


def check_models(surroundings: Surroundings) -> Finding:
    from blazar.store.store import Store
    paths = surroundings.located.paths
    try:
        names = [model["name"] for model in Store(paths).list()] if paths.database.exists() else []
    except BlazarError as refused:
        return Finding("model", "fail", str(refused), "`blazar logs` may tell more")
    if not names:
        return Finding("model", "warn", "none installed", "`blazar pull smollm2-135m` installs a small one")
    shown = ", ".join(names[:3])
    return Finding("model", "ok", f"{len(names)} installed: {shown}{' ...' if len(names) > 3 else ''}")


def _nearest_existing(folder: Path) -> Path:
    """`folder`, or the nearest folder above it that is there: the one that decides whether it can be made."""
    return next(place for place in (folder, *folder.parents) if os.path.exists(place))  # and may be seen
