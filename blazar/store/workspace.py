"""Folders for unfinished work under `models/incoming/`, swept when their owner is dead.

A folder is locked by its owner for as long as it works; a killed owner's lock is gone with it. Folders are made and
swept under store.lock, so a folder that is not locked yet is never taken for a dead one.
"""

import contextlib
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from blazar.paths import Paths
from blazar.store.locks import locked, told_in_words, try_lock

Waiting = Callable[[Path], None]
"""Called again and again with the folder of the one who does the same work before us; it should sleep a little."""


@contextlib.contextmanager
def workspace(paths: Paths, work: str | None = None, waiting: Waiting | None = None) -> Iterator[Path]:
    """An empty folder of our own on the blobs' file system; it is gone afterwards, whatever happens.

    Of several who name the same `work`, one has the folder at a time; the others wait for it.
    """
    folder = paths.incoming / (work or secrets.token_hex(8))
    with told_in_words(folder):
        while (lock := _claim(paths, folder)) is None:
            if waiting:
                waiting(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def _claim(paths: Paths, folder: Path) -> int | None:
    """Make `folder` and lock it; None when another has it."""
    with locked(paths.store_lock):
        sweep(paths.incoming)
        try:
            folder.mkdir()
        except FileExistsError:
            return None
        return try_lock(folder)


def sweep(incoming: Path) -> None:
    """Remove what nobody works on any more. The caller holds store.lock."""
    for entry in incoming.iterdir():
        with contextlib.suppress(FileNotFoundError):
            lock = try_lock(entry)
            if lock is not None:
                if entry.is_dir():
                    shutil.rmtree(entry, ignore_errors=True)
                else:
                    entry.unlink()
                os.close(lock)
