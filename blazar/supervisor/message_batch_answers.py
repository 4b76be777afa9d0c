"""Answers to what the gateway asks about batches of messages, which are written and read here alone."""

import time
from collections.abc import Callable
from typing import Any

from blazar.control import Link, Message
from blazar.errors import UsageRefused
from blazar.models.message_batch import OUTCOMES, MessageBatch
from blazar.supervisor.store_answers import Later

Work = Callable[[], dict[str, Any]]


class MessageBatchAnswers:
    """`kinds` are the messages it answers. The answer to a change follows the end of its transaction."""

    def __init__(self, later: Later, wall: Callable[[], float] = time.time) -> None:
        self._later = later
        self._wall = wall
        self._verbs: dict[str, Callable[[Message], Work]] = {
            "put": self._put, "find": self._find, "page": self._page, "cancel": self._cancel, "forget": self._forget,
            "results": self._results, "next": self._next, "answer": self._answer}
        self.kinds: dict[str, Callable[[Link, Message], None]] = {"message_batch": self._ask}

    def _ask(self, link: Link, message: Message) -> None:
        verb = self._verbs.get(message["verb"])
        if verb is None:
            raise UsageRefused(f"`message_batch` knows no {message['verb']!r}")
        self._later(link, message, verb(message))

    # Each reads the whole message before its work begins, on a thread.

    def _put(self, message: Message) -> Work:
        owner, id = _named(message)
        requests = [(str(custom_id), str(body)) for custom_id, body in message["requests"]]
        return lambda: {"row": MessageBatch.put(owner, id, requests, self._wall())}

    def _find(self, message: Message) -> Work:
        owner, id = _named(message)
        return lambda: {"row": MessageBatch.find(owner, id, self._wall())}

    def _page(self, message: Message) -> Work:
        owner, after, before, limit = str(message["owner"]), message["after"], message["before"], int(message["limit"])

        def page() -> dict[str, Any]:
            rows, more = MessageBatch.page(owner, self._wall(), after, before, limit)
            return {"rows": rows, "more": more}
        return page

    def _cancel(self, message: Message) -> Work:
        owner, id = _named(message)
        return lambda: {"row": MessageBatch.cancel(owner, id, self._wall())}

    def _forget(self, message: Message) -> Work:
        owner, id = _named(message)
        return lambda: {"row": MessageBatch.forget(owner, id)}

    def _results(self, message: Message) -> Work:
        (owner, id), after = _named(message), int(message["after"])

        def results() -> dict[str, Any]:
            rows, more = MessageBatch.results(owner, id, after) or ([], False)
            return {"rows": rows, "more": more}
        return results

    def _next(self, message: Message) -> Work:
        resting = [str(owner) for owner in message["resting"]]
        return lambda: {"row": MessageBatch.next(self._wall(), resting)}

    def _answer(self, message: Message) -> Work:
        batch, position, outcome = int(message["batch"]), int(message["position"]), str(message["outcome"])
        body = str(message["body"])
        if outcome not in OUTCOMES:
            raise UsageRefused(f"`message_batch` knows no outcome {outcome!r}")
        return lambda: {"kept": MessageBatch.answer(batch, position, outcome, body, self._wall())}


def _named(message: Message) -> tuple[str, str]:
    return str(message["owner"]), str(message["object"])
