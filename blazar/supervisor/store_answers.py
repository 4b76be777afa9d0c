"""Answers to what the gateway asks of the store: making models, copying them, and taking files for them."""

import threading
from collections.abc import Callable
from typing import Any, Protocol

from blazar.control import Link, Message
from blazar.store.create import Recipe, create, sent_pieces
from blazar.store.preset import Preset
from blazar.store.store import Store
from blazar.store.uploads import read_digest, receive, sent


class Later(Protocol):
    """Answers a message with what a call gives, which runs on a thread; what the call does is told beforehand."""

    def __call__(self, link: Link, message: Message, call: Callable[[], dict[str, Any]], changes: bool = False,
                 reads_files: bool = False) -> None:
        """As `Answers` does it."""


class StoreAnswers:
    """`kinds` are the messages it answers."""

    def __init__(self, store: Store, later: Later) -> None:
        self._store = store
        self._later = later
        self._making = threading.Lock()
        """One model is made at a time: making one takes the files that were sent out of their folder, where another
        one that is made of the same files still looks for them."""
        self.kinds: dict[str, Callable[[Link, Message], None]] = {
            "create": self._create, "copy": self._copy, "blob": self._blob}

    def _create(self, link: Link, message: Message) -> None:
        def made() -> dict[str, Any]:
            with self._making:
                model, warnings = create(self._store, self._recipe(message))
            return {"model": model, "warnings": warnings}

        self._later(link, message, made, changes=True)

    def _recipe(self, message: Message) -> Recipe:
        preset = message["preset"]
        paths = self._store.paths
        return Recipe(name=message["name"], source=message["from"], pieces=sent_pieces(paths, message["files"]),
                      adapters=sent_pieces(paths, message["adapters"]), license=message["license"],
                      preset=Preset(preset["system"], tuple(preset["messages"]), preset["parameters"],
                                    preset["template"]))

    def _copy(self, link: Link, message: Message) -> None:
        source, name = message["source"], message["name"]
        copy = self._store.alias if message["alias"] else self._store.copy
        self._later(link, message, lambda: {"model": copy(source, name)}, changes=True)

    def _blob(self, link: Link, message: Message) -> None:
        digest, token = message["digest"], message["token"]

        def taken() -> dict[str, Any]:
            if token is not None:
                receive(self._store.paths, token, digest)
            return {"here": sent(self._store.paths, read_digest(digest)) is not None}

        self._later(link, message, taken, reads_files=token is not None)
