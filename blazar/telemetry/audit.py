"""`AuditLog`: log/audit.jsonl, one line appended for each request to a model: who, which model, with what outcome.

A line is one write to a file opened for appending, so several processes may share it and no line is cut by another.
At ROTATE_AT bytes the file moves to `.1`, in place of the older one. Whatever goes wrong here is a warning, said once
until a line can be written again; no request fails for it.
"""

import contextlib
import fcntl
import logging
import os
from pathlib import Path
from typing import Final

ROTATE_AT: Final = 16 << 20

log = logging.getLogger(__name__)


class AuditLog:
    """`write` for each request, `tick` once a second."""

    def __init__(self, path: Path, rotate_at: int = ROTATE_AT) -> None:
        self._path = path
        self._rotate_at = rotate_at
        self._descriptor: int | None = None
        self._warned = False
        self._torn = False
        """The last line got only part of the way, so the next one begins with a line end."""
        self._open()

    def write(self, line: bytes) -> bool:
        """Append `line`, which ends in a line end and has no other; whether that worked."""
        if self._descriptor is None:
            return False
        if self._torn:
            line = b"\n" + line
        try:
            written = os.write(self._descriptor, line)
        except OSError as error:
            self._warn(error)
            return False
        if self._torn or self._warned or written != len(line):
            self._torn = written != len(line)
            self._warned = self._warned and self._torn
        return not self._torn

    def tick(self) -> None:
        """Rotate what has grown too large; go on in the file of that name when it is no longer ours."""
        try:
            if self._descriptor is None or not self._is_current(self._descriptor):
                self._reopen()
            elif os.fstat(self._descriptor).st_size >= self._rotate_at:
                self._rotate(self._descriptor)
        except OSError as error:
            self._warn(error)

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _rotate(self, descriptor: int) -> None:
        """Whoever holds the lock on the full file moves it; who comes second finds it moved."""
        with contextlib.suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self._is_current(descriptor):
                self._path.replace(self._path.with_name(self._path.name + ".1"))
            self._reopen()

    def _is_current(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(descriptor))
        except FileNotFoundError:
            return False

    def _reopen(self) -> None:
        self.close()
        self._open()

    def _open(self) -> None:
        try:
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except OSError as error:
            self._warn(error)

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            log.warning("no audit line can be written to %s: %s; requests go on", self._path, error.strerror or error)
