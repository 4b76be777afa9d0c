"""What a person at a terminal sees of a pull."""

from blazar.cli.output import Output, Progress
from blazar.store.pull import Teller


class TerminalTeller(Teller):
    """Sentences as notes, bytes as the progress line; from the second file on its stages are numbered."""

    def __init__(self, out: Output, progress: Progress) -> None:
        self._out = out
        self._progress = progress
        self._files = 0

    def says(self, text: str) -> None:
        self._out.note(text)

    def begins(self, name: str, sha256: str | None, size: int | None) -> None:
        self._files += 1

    def progress(self, stage: str, done: int, total: int | None) -> None:
        numbered = self._files > 1 and stage != "install"
        self._progress(f"{stage} {self._files}" if numbered else stage, done, total)
