"""What a fuzz target reports, and the interface that the runner knows targets by."""

from random import Random
from typing import Protocol


class Fault(Exception):
    """Something that must never happen; `sent` is the input that made it happen."""

    def __init__(self, what: str, sent: bytes) -> None:
        super().__init__(what)
        self.sent = sent


class Target(Protocol):
    """One kind of input. Everything about an input follows from `chance` and `number`."""

    def try_one(self, chance: Random, number: int) -> str:
        """Make an input, try it, and say how it ended in a word; raises Fault."""

    def close(self) -> None:
        """Let go of connections."""
