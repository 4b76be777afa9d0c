"""Files that clients have sent for models yet to be made.

A sender writes into `models/incoming/`, under a lock, so that whatever it leaves behind is swept like any unfinished
work. Once the digest is checked the file lies in `models/uploads/` until a model takes it, or for a day.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import time
from pathlib import Path
from typing import BinaryIO

from blazar.errors import BlobMismatch, DigestRefused, StoreUnwritable
from blazar.paths import Paths
from blazar.store.installed import blob_path
from blazar.store.locks import locked, told_in_words
from blazar.units import format_bytes

KEPT = 86_400.0
"""Seconds that an upload is kept when no model takes it."""
RESERVE = 64 << 20
"""Bytes of the disk that an upload leaves free."""
BLOCK = 1 << 20

_DIGEST = re.compile(r"[0-9a-f]{64}")
_WRITTEN = re.compile(r"(?:sha256[:-])?([0-9a-fA-F]{64})")
_TOKEN = re.compile(r"[0-9a-f]{32}")


def is_digest(text: str) -> bool:
    return bool(_DIGEST.fullmatch(text))


def read_digest(text: object) -> str:
    """The 64 hex digits of `sha256:…`. Raises DigestRefused."""
    found = _WRITTEN.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        raise DigestRefused(digest=str(text)[:80])
    return found[1].lower()


def upload_path(paths: Paths, digest: str) -> Path:
    return paths.uploads / digest


def sent(paths: Paths, digest: str) -> Path | None:
    """The file of that content, sent or installed, when it is here."""
    for file in (blob_path(paths.blobs, digest), upload_path(paths, digest)):
        if file.is_file():
            return file
    return None


class Incoming:
    """One file on its way in; `close` removes it unless the supervisor has taken it over."""

    def __init__(self, paths: Paths) -> None:
        self.token = secrets.token_hex(16)
        self.size = 0
        self._path = paths.incoming / self.token
        with told_in_words(paths.incoming):
            self._file = _locked_file(paths.models / f".{self.token}", self._path)

    def check_room(self, more: int) -> None:
        """Raises StoreUnwritable when `more` bytes would fill the disk."""
        disk = os.fstatvfs(self._file.fileno())
        free = disk.f_bavail * disk.f_frsize - RESERVE
        if more > free:
            raise StoreUnwritable(path=self._path.parent, reason=f"the file needs {format_bytes(more)} more and "
                                                                 f"{format_bytes(max(0, free))} are free",
                                  remedy="free some space, or choose another `--data-dir`")

    def write(self, data: bytes) -> None:
        """Add `data`. Raises StoreUnwritable."""
        self.check_room(len(data))
        left = memoryview(data)
        with told_in_words(self._path):
            while left:
                left = left[self._file.write(left):]
        self.size += len(data)

    def close(self) -> None:
        self._file.close()
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)


def _locked_file(first: Path, final: Path) -> BinaryIO:
    """A new file that is locked from the moment it can be seen in its folder, so that no sweep takes it for dead."""
    file = open(first, "xb", buffering=0)  # noqa: SIM115 - it stays open until the sender is done
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        first.rename(final)
    except OSError:
        file.close()
        first.unlink(missing_ok=True)
        raise
    return file


def receive(paths: Paths, token: str, digest: str) -> None:
    """Check the file that was written under `token` and keep it. Raises BlobMismatch and StoreUnwritable.

    `token` is that of an `Incoming`, which is still open.
    """
    if not _TOKEN.fullmatch(token):
        raise DigestRefused(digest=token[:80])
    path = paths.incoming / token
    with told_in_words(path):
        with open(path, "rb") as file:
            os.fsync(file.fileno())
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != digest:
            raise BlobMismatch(found=found, expected=digest)
        with locked(paths.store_lock):
            forget_old_uploads(paths)
            if sent(paths, digest) is None:
                path.rename(upload_path(paths, digest))


def forget_old_uploads(paths: Paths, now: float | None = None) -> None:
    """Delete what nobody has made a model of for a day. The caller holds store.lock."""
    limit = (time.time() if now is None else now) - KEPT
    for file in paths.uploads.iterdir():
        with contextlib.suppress(OSError):
            if file.stat().st_mtime < limit:
                file.unlink()
    for file in paths.models.glob(".*"):
        with contextlib.suppress(OSError):
            if _TOKEN.fullmatch(file.name[1:]) and file.stat().st_mtime < limit:
                file.unlink()
