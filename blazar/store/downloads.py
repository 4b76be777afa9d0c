"""Folders for downloads under way, `models/partial/<what>/`, one a model: they outlive whoever filled them.

The folder is locked for as long as somebody works in it, so two who want the same share one download. A killed or
failed download leaves its folder, in which the next one goes on; a finished one takes it away. Folders are made,
locked and removed under store.lock, so nobody holds the lock of a folder that is gone.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from blazar.paths import Paths
from blazar.store.locks import locked, told_in_words, try_lock

KEPT = 14 * 86_400.0
"""Seconds after which a download that nobody went on with is given up."""


@contextlib.contextmanager
def download_folder(paths: Paths, what: str, waiting: Callable[[Path], None]) -> Iterator[Path]:
    """The folder of the download `what`, ours alone; `waiting` is called again and again while another has it.

    It is gone after a block that ends well, and kept after one that does not, unless nothing has come.
    """
    folder = paths.partial / what
    with told_in_words(folder):
        while (lock := _claim(paths, folder)) is None:
            waiting(folder)
    try:
        yield folder
        with locked(paths.store_lock):
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        with locked(paths.store_lock), contextlib.suppress(OSError):
            if not any(entry.stat().st_size for entry in folder.iterdir() if entry.suffix != ".json"):
                shutil.rmtree(folder)
        os.close(lock)


def _claim(paths: Paths, folder: Path) -> int | None:
    """Make `folder` if need be, and lock it; None when another has it."""
    with locked(paths.store_lock):
        _collect(paths.partial, besides=folder)
        folder.mkdir(parents=True, exist_ok=True)
        return try_lock(folder)


def _collect(place: Path, besides: Path) -> None:
    """Remove the downloads that nobody went on with for KEPT seconds."""
    for folder in place.iterdir() if place.exists() else ():
        with contextlib.suppress(OSError):
            last = max(entry.stat().st_mtime for entry in (folder, *folder.iterdir()))
            if folder != besides and time.time() - last > KEPT and (lock := try_lock(folder)) is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)
