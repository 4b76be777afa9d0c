"""Logging set-up: run/daemon.log, rotated once, and warnings on stderr for whoever started the daemon."""

import contextlib
import logging
import logging.handlers
import os
import select
import sys
from pathlib import Path
from typing import Any, TextIO

ROTATE_AT = 10 << 20
"""Bytes at which a log file moves to its `.1`."""

LONGEST_ECHO = 4000
"""Bytes of a line on stderr: what fits into a pipe that takes anything at all."""

OURS = __name__.partition(".")[0]
"""The logger above all of ours."""

FORM = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def set_up(file: Path, level: str = "info", echo: str = "warning") -> None:
    """Send everything from `level` on to `file`, and everything from `echo` on to stderr too."""
    logging.raiseExceptions = False  # a full disk costs lines of the log, not a traceback for each of them
    root = logging.getLogger()
    set_level(level)
    to_file = rotating(file)
    to_file.setFormatter(logging.Formatter(FORM))
    to_terminal = _Echo(sys.stderr)
    to_terminal.setLevel(number(echo))
    to_terminal.setFormatter(logging.Formatter("blazar: %(levelname)s: %(message)s"))
    root.handlers[:] = [to_file, to_terminal]


def set_level(level: str) -> None:
    """Log from `level` on. Below info only what is ours: libraries then write down whole queries and addresses, with
    what was asked and secrets in them."""
    logging.getLogger().setLevel(max(number(level), logging.INFO))
    logging.getLogger(OURS).setLevel(number(level))


class _Echo(logging.StreamHandler):
    """Leaves lines out while nobody takes them: a halted terminal, or a pipe that is not read, must not halt us. They
    are in the file."""

    def emit(self, record: logging.LogRecord) -> None:
        if _takes(self.stream):
            super().emit(record)

    def format(self, record: logging.LogRecord) -> str:
        return super().format(record).encode(errors="replace")[:LONGEST_ECHO].decode(errors="ignore")


def _takes(stream: TextIO) -> bool:
    """Whether such a line can be written without waiting."""
    poll = select.poll()
    try:
        poll.register(stream, select.POLLOUT)
    except (OSError, ValueError):
        return True  # it is no file of the system, so it does not wait
    return bool(poll.poll(0))


def rotating(file: Path) -> logging.handlers.RotatingFileHandler:
    """A handler for `file` that keeps one older part beside it."""
    return _OwnersFile(file, maxBytes=ROTATE_AT, backupCount=1, encoding="utf-8", errors="replace")


class _OwnersFile(logging.handlers.RotatingFileHandler):
    """Its files can be read by their owner alone, whatever the umask says."""

    def _open(self) -> Any:
        return open(self.baseFilename, self.mode, encoding=self.encoding, errors=self.errors,
                    opener=lambda path, flags: os.open(path, flags | os.O_CLOEXEC, 0o600))


class OutputFile:
    """A file that takes the raw output of a child; at ROTATE_AT bytes it moves to `.1`."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._open()

    def write(self, data: bytes) -> None:
        if self._size + len(data) > ROTATE_AT:
            with contextlib.suppress(FileNotFoundError):
                self._path.replace(self._path.with_name(self._path.name + ".1"))
            self._open()  # when it raises, the old file is still there, and still ours to close
        self._size += self._file.write(data) or 0

    def close(self) -> None:
        self._file.close()

    def _open(self) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(descriptor, "ab", buffering=0)
        self._size = os.fstat(descriptor).st_size


def number(level: str) -> int:
    """A level as `logging` counts it; info for a word that is none."""
    names = {"trace": logging.DEBUG, "warn": logging.WARNING, "off": logging.CRITICAL + 1}
    return names.get(level.lower()) or logging.getLevelNamesMapping().get(level.upper(), logging.INFO)
