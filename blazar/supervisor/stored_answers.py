"""Answers to what the gateway asks to have kept for clients: completions and responses, read and written here alone."""

import time
from collections.abc import Callable
from typing import Any

from blazar.control import Link, Message
from blazar.errors import UsageRefused
from blazar.models.stored import Completion, Response, Stored
from blazar.supervisor.store_answers import Later

TABLES: dict[str, type[Stored]] = {"completion": Completion, "response": Response}
TEXTS = ("owner", "model", "metadata", "input", "body")

Work = Callable[[], dict[str, Any]]


class StoredAnswers:
    """`kinds` are the messages it answers. The answer to a `put` follows the end of its transaction."""

    def __init__(self, later: Later, wall: Callable[[], float] = time.time) -> None:
        self._later = later
        self._wall = wall
        self._verbs: dict[str, Callable[[type[Stored], Message], Work]] = {
            "put": self._put, "find": self._find, "page": self._page, "annotate": self._annotate,
            "forget": self._forget}
        self.kinds: dict[str, Callable[[Link, Message], None]] = {"keep": self._keep}

    def _keep(self, link: Link, message: Message) -> None:
        table, verb = TABLES.get(message["table"]), self._verbs.get(message["verb"])
        if table is None or verb is None:
            raise UsageRefused(f"`keep` knows no {message['verb']!r} of {message['table']!r}")
        self._later(link, message, verb(table, message))

    # Each reads the whole message before its work begins, on a thread.

    def _put(self, table: type[Stored], message: Message) -> Work:
        row = {"id": str(message["object"]), **{name: str(message[name]) for name in TEXTS}}

        def put() -> dict[str, Any]:
            table.put(row, self._wall())
            return {}
        return put

    def _find(self, table: type[Stored], message: Message) -> Work:
        owner, id = str(message["owner"]), str(message["object"])
        return lambda: {"row": table.find(owner, id, self._wall())}

    def _page(self, table: type[Stored], message: Message) -> Work:
        owner, after, model = str(message["owner"]), message["after"], message["model"]
        limit, newest_first, pairs = int(message["limit"]), bool(message["newest_first"]), dict(message["pairs"])

        def page() -> dict[str, Any]:
            rows, more = table.page(owner, self._wall(), after, limit, newest_first, model, pairs)
            return {"rows": rows, "more": more}
        return page

    def _annotate(self, table: type[Stored], message: Message) -> Work:
        owner, id, metadata = str(message["owner"]), str(message["object"]), str(message["metadata"])
        return lambda: {"there": table.annotate(owner, id, metadata, self._wall())}

    def _forget(self, table: type[Stored], message: Message) -> Work:
        owner, id = str(message["owner"]), str(message["object"])
        return lambda: {"there": table.forget(owner, id, self._wall())}
