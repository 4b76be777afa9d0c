"""`Screen`: a terminal that is drawn over and over, and is afterwards as it was, however that ends."""

import os
import signal
from types import FrameType
from typing import TextIO

ENTER, LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""To a screen of its own without a cursor, and back."""
HOME, LINE_END, REST = "\x1b[H", "\x1b[K\n", "\x1b[J"
USUAL = 80, 24
ENDED_BY = (signal.SIGTERM, signal.SIGHUP)


class Screen:
    """Use it as a context manager."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __enter__(self) -> "Screen":
        self._before = {number: signal.signal(number, _interrupt) for number in ENDED_BY}
        self._write(ENTER)
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._write(LEAVE)
        finally:
            for number, handler in self._before.items():
                signal.signal(number, handler)

    def size(self) -> tuple[int, int]:
        """Columns and lines, as they are now."""
        try:
            columns, lines = os.get_terminal_size(self._stream.fileno())
        except (OSError, ValueError):
            return USUAL
        return columns or USUAL[0], lines or USUAL[1]

    def draw(self, lines: list[str]) -> None:
        self._write(HOME + LINE_END.join(lines) + "\x1b[K" + REST)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt
