"""Work that is counted in steps (files compiled, tensors converted): one moving line on a terminal, else few lines."""

import time
from collections.abc import Callable
from typing import TextIO

from blazar.units import format_duration


class Steps:
    """Call it with (what is done, steps done, steps in all); use it as a context manager, so its line is ended."""

    INTERVAL = 0.1
    """Seconds between two drawings on a terminal."""
    PAUSE = 10.0
    """Seconds between two lines elsewhere."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._moves = stream.isatty()
        self._task = ""
        self._began = self._drawn = 0.0

    def __enter__(self) -> "Steps":
        return self

    def __exit__(self, *_: object) -> None:
        self._end_line()

    def __call__(self, task: str, done: int, total: int | None) -> None:
        now = self._clock()
        if task != self._task:
            self._end_line()
            self._task, self._began, self._drawn = task, now, now
        if not total:
            return
        if self._moves and (now - self._drawn >= self.INTERVAL or done >= total):
            self._drawn = now
            self._write(f"\r\x1b[K{self._line(now, done, total)}")
        elif not self._moves and now - self._drawn >= self.PAUSE:
            self._drawn = now
            self._write(self._line(now, done, total) + "\n")

    def _line(self, now: float, done: int, total: int) -> str:
        elapsed = now - self._began
        left = f", {format_duration(max(1, round(elapsed * (total - done) / done)))} left" if 0 < done < total else ""
        return f"{self._task}  {100 * done // total} %{left}"

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    def _end_line(self) -> None:
        if self._task and self._moves:
            self._write("\n")
        self._task = ""
