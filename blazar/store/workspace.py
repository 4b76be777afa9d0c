"""Folders for unfinished work under `models/incoming/`, swept when their owner is dead.

A folder is locked by its owner for as long as it works; a killed owner's lock is gone with it. Folders are made and
swept under store.lock, so a folder that is not locked yet is never taken for a dead one.
"""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from blazar.paths import Paths
from blazar.store.locks import locked, told_in_words, try_lock


@contextlib.contextmanager
def workspace(paths: Paths) -> Iterator[Path]:
    """An empty folder of our own on the blobs' file system; it is gone afterwards, whatever happens."""
    with told_in_words(paths.incoming), locked(paths.store_lock):
        sweep(paths.incoming)
        folder = Path(tempfile.mkdtemp(dir=paths.incoming))
        lock = try_lock(folder)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if lock is not None:
            os.close(lock)


def sweep(incoming: Path) -> None:
    """Remove what nobody works on any more. The caller holds store.lock."""
    for entry in incoming.iterdir():
        lock = try_lock(entry)
        if lock is None:
            continue
        if entry.is_dir():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
        os.close(lock)
