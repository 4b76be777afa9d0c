"""`Job`: long work that the supervisor does for one of our clients, and what it tells meanwhile."""

import queue
from collections.abc import Iterator
from typing import Any

from blazar.control import Link, Message, unwrap


class Job:
    """Use it as a context manager: it begins there, and one that is left before its end is cancelled.

    Iterating gives what the supervisor tells, and ends with the job; the error that ended it is raised.
    """

    def __init__(self, link: Link, number: int, verb: str, **fields: Any) -> None:
        self.number = number
        self._link = link
        self._verb = verb
        self._fields = fields
        self._news: queue.SimpleQueue[tuple[bool, Message | None]] = queue.SimpleQueue()
        self._ended = False

    def __enter__(self) -> "Job":
        self._link.ask_later("job", lambda answer: self._news.put((True, answer)), job=self.number, verb=self._verb,
                             **self._fields)
        return self

    def __exit__(self, *_: object) -> None:
        if not self._ended:
            self._link.note("cancel", job=self.number)

    def hear(self, note: Message) -> None:
        """Take a note about this job, on the link's reader."""
        self._news.put((False, note))

    def __iter__(self) -> Iterator[Message]:
        while not self._ended:
            self._ended, message = self._news.get()
            if self._ended:
                unwrap(message, self._verb)
            elif message is not None:
                yield message
