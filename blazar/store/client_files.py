"""Files that clients keep here: what a batch reads, and what it has written.

A writer's file has a dot before its name until it is whole and flushed, and is locked. What a killed process leaves
under such a name, and nobody holds any more, the next upload deletes; what has no row in the database, the next start.
"""

import contextlib
import fcntl
import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path

from blazar.errors import FileTooLarge, StoreUnwritable
from blazar.paths import Paths, flush_folder
from blazar.store.locks import told_in_words, try_lock
from blazar.units import format_bytes

LARGEST = 512 << 20
"""Bytes of the largest file that a client may send."""
RESERVE = 64 << 20
"""Bytes of the disk that stay free."""
BLOCK = 1 << 20

_ID = re.compile(r"file-[0-9a-f]{24}")
_PARTIAL = re.compile(r"\.file-[0-9a-f]{24}")


def new_file_id() -> str:
    """An id that nobody can guess."""
    return f"file-{secrets.token_hex(12)}"


def file_path(paths: Paths, id: str) -> Path:
    """Where the content of that file lies. Raises ValueError for what is no id of ours."""
    if not _ID.fullmatch(id):
        raise ValueError(f"{id[:60]!r} is no id of a file")
    return paths.files / id


class FileWriter:
    """One file being written; `close` removes it unless it was sealed and taken."""

    def __init__(self, paths: Paths, id: str, largest: int | None = LARGEST) -> None:
        self.id = id
        self.size = 0
        self._largest = largest
        self._partial = _partial(paths, id)
        with told_in_words(paths.files):
            self._descriptor = _locked_file(self._partial)

    def write(self, data: bytes) -> None:
        """Add `data`. Raises FileTooLarge and StoreUnwritable."""
        self.size += len(data)
        if self._largest is not None and self.size > self._largest:
            raise FileTooLarge(limit=format_bytes(self._largest))
        disk = os.fstatvfs(self._descriptor)
        if disk.f_bavail * disk.f_frsize - RESERVE < len(data):
            raise StoreUnwritable(path=self._partial.parent, reason="its disk is nearly full",
                                  remedy="free some space, or choose another `--data-dir`")
        left = memoryview(data)
        with told_in_words(self._partial):
            while left:
                left = left[os.write(self._descriptor, left):]

    def seal(self) -> None:
        """The file is whole, and on the disk. Raises StoreUnwritable."""
        with told_in_words(self._partial):
            os.fsync(self._descriptor)

    def close(self) -> None:
        os.close(self._descriptor)
        with contextlib.suppress(OSError):
            self._partial.unlink(missing_ok=True)


def take(paths: Paths, id: str) -> None:
    """Give a sealed file its name. Raises StoreUnwritable."""
    with told_in_words(paths.files):
        _partial(paths, id).replace(file_path(paths, id))
        flush_folder(paths.files)


def remove(paths: Paths, id: str) -> None:
    """Delete the content of a file, if it is there."""
    with contextlib.suppress(OSError):
        file_path(paths, id).unlink(missing_ok=True)


def lines(path: Path, longest: int) -> Iterator[tuple[int, bytes]]:
    """The lines of a file that hold something, each with the place in bytes where it ends; one longer than `longest`
    bytes is cut short there, so that it does not fill the memory."""
    with open(path, "rb") as file:
        while line := file.readline(longest + 1):
            whole = line
            while not whole.endswith(b"\n") and (more := file.readline(BLOCK)):
                whole = more
            if line.strip():
                yield file.tell(), line


def sweep_partials(paths: Paths) -> None:
    """Delete what nobody writes any more; for a daemon that runs."""
    with told_in_words(paths.files):
        left = [file for file in paths.files.iterdir() if _PARTIAL.fullmatch(file.name)]
    for file in left:
        with contextlib.suppress(OSError):
            descriptor = try_lock(file)
            if descriptor is not None:
                file.unlink()
                os.close(descriptor)


def sweep_files(paths: Paths, known: set[str]) -> None:
    """Delete what no row of the database knows; for a daemon that begins."""
    with told_in_words(paths.files):
        for file in paths.files.iterdir():
            if file.name not in known and file.is_file():
                file.unlink(missing_ok=True)


def _locked_file(final: Path) -> int:
    """A new file to be written, which is locked from the moment it has its name, so that no sweep takes it for dead."""
    first = final.with_name(f"{final.name}.new")
    descriptor = os.open(first, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        first.rename(final)
    except OSError:
        os.close(descriptor)
        first.unlink(missing_ok=True)
        raise
    return descriptor


def _partial(paths: Paths, id: str) -> Path:
    path = file_path(paths, id)
    return path.with_name(f".{path.name}")
