"""What requests that end alike have in common, which is nearly all that is noted of them: `Ending`.

An ending is told apart by its `Words`, the texts and flags of an audit line. That line, of which only the numbers are
each request's own, and the counts that go with it, are made when the first request ends so, and kept for the next.
"""

from typing import Any, Final, NamedTuple

from blazar.telemetry.metrics import Metrics, status_class

MOST: Final = 512
"""Endings that are kept; when they are more, all are made anew. A name is of limited length, so they take a MiB."""


class Words(NamedTuple):
    """What is the same in many audit lines, in the order of their fields; '' is null there."""

    key: str | None
    dialect: str
    operation: str
    asked: str
    alias: str
    model: str
    stream: bool
    status: int
    error: str | None
    client_gone: bool
    estimated: bool
    truncated: bool
    structure: str | None
    coalesced: bool
    cache: str


class Ending:
    """One kind of ending, and what its requests are counted in."""

    def __init__(self, words: Words, metrics: Metrics) -> None:
        self.model = words.model
        self.generations = metrics.generations.count(words.dialect, words.operation, status_class(words.status))
        self.first_bytes: list[float] | None = None
        """Where the times until an answer began go; None before there was one."""
        self.line = audit_line(words)
        """To be filled with a request's own values, and written at once: the next one fills it again."""


class Endings:
    """A bounded number of them."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self.known: dict[tuple[object, ...], Ending] = {}
        """By their words."""

    def begin(self, words: tuple[Any, ...]) -> Ending:
        """One that is not known yet."""
        if len(self.known) >= MOST:
            self.known.clear()
        ending = self.known[words] = Ending(Words._make(words), self._metrics)
        return ending

    def answered(self, ending: Ending) -> list[float]:
        """Its `first_bytes`, now that there is an answer."""
        if ending.first_bytes is None:
            ending.first_bytes = self._metrics.first_byte.series(ending.model).fresh
        return ending.first_bytes


def audit_line(words: Words) -> dict[str, Any]:
    """One line of the audit log: identity and outcome, never what was said. Durations are in milliseconds.

    What is each request's own is still empty.
    """
    return {
        "time": "",
        "id": "",
        "key": words.key,
        "dialect": words.dialect,
        "operation": words.operation,
        "asked": words.asked,
        "alias": words.alias or None,
        "model": words.model or None,
        "stream": words.stream,
        "status": words.status,
        "error": words.error,
        "client_gone": words.client_gone,
        "prompt_tokens": 0,
        "completion_tokens": 0,
        "estimated": words.estimated,
        "truncated": words.truncated,
        "structure": words.structure,
        "coalesced": words.coalesced,
        "cache": words.cache or None,
        "load_ms": 0.0,
        "queue_ms": 0.0,
        "first_byte_ms": None,
        "total_ms": 0.0,
    }
