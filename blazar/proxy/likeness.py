"""`Likeness`: the vectors by which texts are compared, from an installed embedding model."""

import logging
from collections.abc import Callable
from typing import Any

from blazar.errors import BlazarError
from blazar.proxy.directory import Directory
from blazar.proxy.embedder import Embedder
from blazar.proxy.exchange import Exchange, Inputs, Reply
from blazar.proxy.pipeline import Forward
from blazar.proxy.tokens import Fetch

STAGES = frozenset({"retry", "resolve", "admission"})
"""What an embedding goes through that no client has asked for."""

log = logging.getLogger("blazar.proxy")


class Likeness:
    def __init__(self, directory: Directory, pipeline: Callable[[frozenset[str], Forward], Forward],
                 fetch: Fetch) -> None:
        self._directory = directory
        self._pipeline = pipeline
        self._fetch = fetch
        self._warned = ""

    def model(self) -> dict[str, Any] | None:
        """The smallest installed model that embeds whole texts and does nothing else."""
        able = [entry for entry in self._directory.models.values() if "embedding" in entry["capabilities"]
                and "completion" not in entry["capabilities"] and not entry.get("late_chunking")]
        return min(able, key=lambda entry: (entry["size"], entry["name"]), default=None)

    def vector(self, exchange: Exchange, model: str, text: str) -> list[float] | None:
        """The vector of `text`, for as long as the exchange's client waits; None when there is none to be had, which
        is said once and harms nobody. A text is never cut: half of it would be compared for the whole."""
        vectors: list[list[float]] = []

        def ask(inner: Exchange) -> Reply:
            vectors.extend(Embedder(self._fetch, inner).embed().vectors)
            return Reply(200)

        inner = Exchange(id=exchange.id, dialect=exchange.dialect, operation="embed", asked=model, stream=False,
                         body=b"", payload={})
        inner.model, inner.needs, inner.inputs = model, "embedding", Inputs([text])
        inner.api_key, inner.started, inner.sink = exchange.api_key, exchange.started, exchange.sink
        exchange.interrupt = lambda: inner.end(exchange.ended_by) if exchange.ended_by is not None else None
        try:
            if exchange.ended_by is None:
                self._pipeline(STAGES, ask)(inner)
        except BlazarError as error:
            self._warn(f"the semantic cache has no vector from {model}: {error}")
        finally:
            exchange.interrupt = None
        if exchange.ended_by is not None:
            raise exchange.ended_by
        return vectors[0] if vectors else None

    def warn_missing(self) -> None:
        self._warn("[semantic_cache] is enabled and there is no embedding model to compare questions with, so nothing "
                   "is answered from it: `blazar pull` lists models, choose one that embeds")

    def _warn(self, words: str) -> None:
        if words != self._warned:
            self._warned = words
            log.warning("%s", words)
