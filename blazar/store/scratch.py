"""Folders for a moment, among the system's temporary files: short names, and swept when their owner was killed.

An owner holds its folder locked; a killed one's lock is gone with it.
"""

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

from blazar.store.locks import try_lock


@contextlib.contextmanager
def scratch(work: str) -> Iterator[Path]:
    """An empty folder of our own, gone afterwards; what killed ones left of the same `work` goes too."""
    prefix = f"blazar-{work}-"
    _sweep(prefix)
    folder, lock = _claimed(prefix)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _claimed(prefix: str) -> tuple[Path, int]:
    """A new folder with its lock; another process may sweep it between the two, then there is a next one."""
    while True:
        folder = Path(tempfile.mkdtemp(prefix=prefix))
        lock = _lock(folder)
        if lock is not None and folder.is_dir():
            return folder, lock
        if lock is not None:
            os.close(lock)


def _sweep(prefix: str) -> None:
    """Remove folders of that kind that are ours and nobody's any more."""
    for folder in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        with contextlib.suppress(OSError):
            found = folder.lstat()
            lock = _lock(folder) if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() else None
            if lock is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)


def _lock(folder: Path) -> int | None:
    with contextlib.suppress(FileNotFoundError):
        return try_lock(folder)
    return None
