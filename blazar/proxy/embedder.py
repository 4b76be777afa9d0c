"""`Embedder`: the vectors of an exchange's inputs, from its child, in the order of the inputs and never one short."""

from collections.abc import Sequence
from typing import Any

from blazar.errors import ChildFailed, ChildRefused, InputTooLong
from blazar.proxy.exchange import Embedded, Exchange, Retryable
from blazar.proxy.tokens import Fetch, tokenize
from blazar.proxy.vectors import is_vector

BATCH = 64
"""Inputs that a child is asked for at once: a long list holds up nobody else, and a cancelled one ends soon."""

Items = list[str] | list[list[int]]


class Embedder:
    """Asks for the vectors of one exchange, whose endpoint is leased."""

    batch = BATCH

    def __init__(self, fetch: Fetch, exchange: Exchange) -> None:
        assert exchange.inputs is not None, "the dialect has read them"
        self._fetch = fetch
        self._exchange = exchange
        self._inputs = exchange.inputs

    def embed(self) -> Embedded:
        """Raises InputTooLong, and ChildFailed for an answer that is not one vector for each input."""
        try:
            return self._embed(self._inputs.items)
        except (ChildFailed, ChildRefused) as refused:
            fitting = self._fitting(refused)
        return self._embed(fitting)

    def _embed(self, items: Items) -> Embedded:
        whole = Embedded([], 0)
        for start in range(0, len(items), self.batch):
            found = self._ask(items[start:start + self.batch])
            whole.vectors += found.vectors
            whole.prompt_tokens += found.prompt_tokens
        if len({len(vector) for vector in whole.vectors}) != 1:
            raise self._failed("its vectors are not all of one length")
        return whole

    def _ask(self, batch: Sequence[str | list[int]]) -> Embedded:
        answer = self._fetch(self._exchange, "/v1/embeddings", {
            "model": self._exchange.model, "input": batch, "encoding_format": "float"})
        return Embedded(self._vectors(answer, len(batch)), _prompt_tokens(answer))

    def _vectors(self, answer: dict[str, Any], count: int) -> list[list[float]]:
        """The vectors of a batch of `count` inputs, in their order."""
        rows = answer.get("data")
        if not isinstance(rows, list) or len(rows) != count:
            raise self._failed(f"asked for {count} vectors, it sent "
                               f"{len(rows) if isinstance(rows, list) else 'none'}")
        found: dict[int, Any] = {
            row["index"]: row.get("embedding")
            for row in rows if isinstance(row, dict) and isinstance(row.get("index"), int)}
        if set(found) != set(range(count)):
            raise self._failed(f"its vectors are not numbered from 0 to {count - 1}")
        for index, vector in found.items():
            if not is_vector(vector):
                raise self._failed(f"vector {index} of its answer is empty, or not a list of numbers")
        return [found[index] for index in range(count)]

    def _fitting(self, refused: Exception) -> Items:
        """The inputs cut to what the model takes, if that is allowed; raises `refused` when none was too long."""
        assert self._exchange.endpoint is not None, "stage admission has run"
        inputs, limit = self._inputs, self._exchange.endpoint.ctx
        fitting: list[Any] = []
        items: list[Any] = [*inputs.items]
        for number, item in enumerate(items, 1):
            try:
                tokens = item if isinstance(item, list) else self._tokens(item)
            except (ChildFailed, Retryable):
                raise refused
            if len(tokens) > limit > 0 and not inputs.truncate:
                raise InputTooLong(number=number, count=len(inputs.items), tokens=len(tokens), limit=limit,
                                   model=self._exchange.model)
            fitting.append(self._cut(item, tokens, limit) if len(tokens) > limit > 0 else item)
        if fitting == inputs.items:
            raise refused
        return fitting

    def _cut(self, item: str | list[int], tokens: list[int], limit: int) -> list[int]:
        """The first `limit` of an item's tokens; those that the engine puts around every text are kept."""
        if isinstance(item, list):
            return tokens[:limit]
        bare = self._tokens(item, add_special=False)
        around = len(tokens) - len(bare)
        before = next((size for size in range(around + 1) if tokens[size:size + len(bare)] == bare), around)
        return tokens[:limit - (around - before)] + tokens[before + len(bare):]

    def _tokens(self, text: str, add_special: bool = True) -> list[int]:
        return tokenize(self._fetch, self._exchange, text, add_special)

    def _failed(self, reason: str) -> ChildFailed:
        return ChildFailed(model=self._exchange.model, reason=reason)


def _prompt_tokens(answer: dict[str, Any]) -> int:
    usage = answer.get("usage")
    count = usage.get("prompt_tokens") if isinstance(usage, dict) else 0
    return count if isinstance(count, int) else 0
