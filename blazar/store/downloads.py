"""Folders for downloads under way, `models/partial/<what>/`, one a model: they outlive whoever filled them.

The folder is locked for as long as somebody works in it, so two who want the same share one download. A killed or
failed download leaves its folder, in which the next one goes on; a finished one takes it away. Folders are made,
locked and removed under store.lock, so nobody holds the lock of a folder that is gone.
"""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from blazar.download.sweep import is_given_up
from blazar.paths import Paths
from blazar.store.locks import locked, told_in_words, try_lock


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
        collect(paths, besides=folder)
        folder.mkdir(parents=True, exist_ok=True)
        return try_lock(folder)


def collect(paths: Paths, besides: Path | None = None) -> None:
    """Remove the downloads that are given up. The caller holds store.lock."""
    for folder in paths.partial.iterdir() if paths.partial.exists() else ():
        with contextlib.suppress(OSError):
            if folder != besides and is_given_up(folder) and (lock := try_lock(folder)) is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(lock)
