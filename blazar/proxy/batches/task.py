"""What the runner of batches and those who have them say to each other: `Task`, `Question`, `Outcome`, `Source`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True)
class Question:
    """One request that nobody waits for."""

    path: str
    """Of a POST route of the table."""
    body: bytes
    owner: str
    """Whose it is, as `shelf.owner_of` tells."""
    id: str
    """That of the request, for the audit log."""
    headers: Mapping[str, str] = field(default_factory=dict)
    """By lower-case name, such as `anthropic-version`."""


@dataclass(frozen=True)
class Outcome:
    """Status and body as a client would have got them; with `again` the seconds after which to ask once more."""

    status: int
    body: bytes
    again: float | None = None


@dataclass(frozen=True)
class Task:
    """The next request of a batch: whose model it asks for, the question, and where its answer goes."""

    model: str
    """As the client wrote it."""
    question: Question
    answered: Callable[[Outcome], None]
    """Keeps the outcome; once it returns the request is not asked again. It may raise SupervisorGone."""


class Source(Protocol):
    """Batches of one dialect."""

    def next(self, resting: frozenset[str]) -> Task | None:
        """The next request without an answer, of no owner who is `resting`; None when there is nothing to do.

        Whatever else is due (checking a new batch, ending one that is answered) is done in here. May raise
        SupervisorGone.
        """
