"""Read logs that others write: their last lines, and those that come, over rotations. A rotated log moves to `.1`."""

import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from blazar.telemetry.log import number

PAUSE = 0.25
"""Seconds between two looks at a log that is followed."""
LONGEST_LINE = 1 << 20
PIECE = 1 << 16

_BEGINNING = re.compile(rb"(?:\d{4}-\d\d-\d\d \S+ |\[[^\]]*\] \[\d+\] \[)?(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b")
"""How a message begins, ours or gunicorn's. What follows on lines of its own belongs to it."""


class AtLeast:
    """Of lines one after the other: whether each belongs to a message of this level or above."""

    def __init__(self, level: str) -> None:
        self._number = number(level)
        self._wanted = False

    def __call__(self, line: bytes) -> bool:
        found = _BEGINNING.match(line)
        if found:
            self._wanted = number(found[1].decode()) >= self._number
        return self._wanted


def anything(line: bytes) -> bool:
    return True


class Log:
    """A log file and the older part beside it. Give `wanted` to leave lines out; lines have no line end."""

    def __init__(self, path: Path, wanted: Callable[[bytes], bool] = anything) -> None:
        self._path = path
        self._wanted = wanted
        self._file: BinaryIO | None = None
        self._rest = b""

    def last(self, count: int) -> list[bytes]:
        """The last `count` lines, out of both parts. Raises OSError, but not when there is no log yet."""
        kept: deque[bytes] = deque(maxlen=count)
        older = self._path.with_name(self._path.name + ".1")
        with suppress(FileNotFoundError):
            self._file = older.open("rb")
            kept.extend(self._lines())
            kept.extend(self._leave())
        if self._open():
            kept.extend(self._lines())
        return list(kept)

    def follow(self, pause: Callable[[], object] = lambda: time.sleep(PAUSE)) -> Iterator[bytes]:
        """The lines that come after those of `last`, for ever. Raises OSError."""
        while True:
            yield from self._lines()
            if self._file is None or self._has_moved(self._file):
                yield from self._lines()  # what was still written before it moved
                yield from self._leave()
                if self._open():
                    continue
            pause()

    def _lines(self) -> Iterator[bytes]:
        """Whole lines up to where the file ends now."""
        while self._file is not None and (data := self._file.read(PIECE)):
            *lines, self._rest = (self._rest + data).split(b"\n")
            yield from self._chosen(lines)
            if len(self._rest) > LONGEST_LINE:
                yield from self._chosen([self._rest])
                self._rest = b""

    def _leave(self) -> Iterator[bytes]:
        """Close the file; the last line may lack its end."""
        if self._file is not None:
            self._file.close()
            self._file = None
        rest, self._rest = self._rest, b""
        yield from self._chosen([rest] if rest else [])

    def _chosen(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        return (line for line in lines if self._wanted(line))

    def _open(self) -> bool:
        with suppress(FileNotFoundError):
            self._file = self._path.open("rb")
        return self._file is not None

    def _has_moved(self, file: BinaryIO) -> bool:
        """Whether the name leads to another file by now, or somebody has cut this one."""
        try:
            there = os.stat(self._path)
        except FileNotFoundError:
            return True
        return not os.path.samestat(there, os.fstat(file.fileno())) or there.st_size < file.tell()
