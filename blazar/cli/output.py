"""What a verb prints: tables or the same as JSON on stdout; notes and the progress bar on stderr."""

import json
import os
import re
import select
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from blazar.cli.steps import Steps
from blazar.units import format_bytes, format_duration

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def printable(text: str) -> str:
    """`text` without control characters: model files and models may not steer a person's terminal."""
    return _CONTROL.sub("", text)


class Output:
    """The two streams of one call of `blazar`. Only terminals get their text cleaned; a pipe gets every byte."""

    def __init__(self, as_json: bool = False, stream: TextIO | None = None, errors: TextIO | None = None) -> None:
        self.as_json = as_json
        self._stream = stream or sys.stdout
        self._errors = errors or sys.stderr

    @property
    def interactive(self) -> bool:
        """Whether a person reads the answer."""
        return self._stream.isatty()

    def look(self) -> None:
        """Raises BrokenPipeError when the reader of our pipe has left, which is otherwise seen only by writing."""
        try:
            poll = select.poll()
            poll.register(self._stream.fileno(), 0)
            found = poll.poll(0)
        except (OSError, ValueError):  # no descriptor of the system's
            return
        if found and found[0][1] & select.POLLERR:
            raise BrokenPipeError

    def text(self, text: str) -> None:
        """Print a piece of an answer as it comes, without a line end."""
        self._stream.write(printable(text) if self.interactive else text)
        self._stream.flush()

    def line(self, text: str = "") -> None:
        self.text(text + "\n")

    def note(self, text: str) -> None:
        """One line for the person, kept off stdout."""
        self._errors.write(f"blazar: {printable(text)}\n")
        self._errors.flush()

    def json(self, value: Any) -> None:
        self.line(json.dumps(value, indent=2, ensure_ascii=False))

    def table(self, columns: Sequence[str], rows: Sequence[Sequence[str]], json_rows: Any = None) -> None:
        """Print `rows` under `columns`; with --json print `json_rows`, or one object a row when it is None."""
        if self.as_json:
            names = [column.lower().replace(" ", "_") for column in columns]
            self.json([dict(zip(names, row, strict=True)) for row in rows] if json_rows is None else json_rows)
            return
        cells = [list(columns), *([printable(cell).replace("\n", " ") for cell in row] for row in rows)]
        widths = [max(len(row[place]) for row in cells) for place in range(len(columns))]
        for row in cells:
            self.line("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())

    def progress(self) -> "Progress":
        return Progress(self._errors, silent=self.as_json)

    def steps(self) -> Steps:
        return Steps(self._errors)


class Progress:
    """How far something is, with rate and time left: a moving line on a terminal, now and then a plain line elsewhere.

    Call it with (stage, bytes done, bytes in all); the last is None or 0 when nobody knows. Use it as a context
    manager, so that its line is ended whatever happens.
    """

    WIDTH = 24
    COLUMNS = 80
    INTERVAL = 0.1
    """Seconds between two drawings."""

    PLAIN_INTERVAL = 5.0
    """Seconds between two plain lines, at least."""
    PLAIN_SHARE = 10
    """Percent after which the next plain line may come."""
    PLAIN_SILENCE = 60.0
    """Seconds after which it comes all the same."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic, silent: bool = False) -> None:
        self._stream = stream
        self._clock = clock
        self._silent = silent
        self._moving = stream.isatty()
        self._stage = ""
        self._told = 0
        self._began = self._drawn = 0.0
        self._offset = 0

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self._end_line()

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        if self._silent:
            return
        now = self._clock()
        if stage != self._stage:
            self._end_line()
            self._stage, self._began, self._drawn = stage, now, 0.0 if self._moving else now
            self._offset = self._told = done
        elif done < self._offset:
            self._began, self._offset = now, done
        if not self._moving:
            self._plain(now, done, total)
        elif now - self._drawn >= self.INTERVAL or (total and done >= total):
            self._drawn = now
            columns = self._columns()
            self._stream.write("\r\x1b[K" + self._line(now - self._began, done, total, columns)[:columns])
            self._stream.flush()

    def _plain(self, now: float, done: int, total: int | None) -> None:
        """A line of its own, when the last one is old enough."""
        silence = now - self._drawn
        share = 100 * (done - self._told) / total if total else 0.0
        if silence >= self.PLAIN_INTERVAL and (share >= self.PLAIN_SHARE or silence >= self.PLAIN_SILENCE):
            self._drawn, self._told = now, done
            self._stream.write(f"{self._stage}  {self._figures(now - self._began, done, total).strip()}\n")
            self._stream.flush()

    def _line(self, elapsed: float, done: int, total: int | None, columns: int) -> str:
        """Stage, bar and figures; the bar takes what room the others leave."""
        figures = self._figures(elapsed, done, total)
        if not total:
            return f"{self._stage}  {figures}"
        width = max(0, min(self.WIDTH, columns - len(self._stage) - len(figures) - len("  [] ")))
        filled = min(width, width * done // total)
        return f"{self._stage}  [{'#' * filled}{'.' * (width - filled)}] {figures}"

    def _figures(self, elapsed: float, done: int, total: int | None) -> str:
        """The rate counts from where this stage began, so a resumed download does not look faster than it is."""
        rate = (done - self._offset) / elapsed if elapsed > 0 else 0.0
        pace = f"  {format_bytes(int(rate))}/s" if rate else ""
        if not total:
            return f"{format_bytes(done)}{pace}"
        left = f"  {format_duration(max(1, round((total - done) / rate)))} left" if rate and done < total else ""
        return f"{100 * done // total:3d} %  {format_bytes(done)} of {format_bytes(total)}{pace}{left}"

    def _columns(self) -> int:
        """How long a line may be: one that wraps could not be drawn over."""
        try:
            return (os.get_terminal_size(self._stream.fileno()).columns or self.COLUMNS) - 1
        except (OSError, ValueError):
            return self.COLUMNS - 1

    def _end_line(self) -> None:
        if self._stage and self._moving:
            self._stream.write("\n")
            self._stream.flush()
        self._stage = ""
