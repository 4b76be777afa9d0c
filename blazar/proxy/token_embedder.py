"""`TokenEmbedder`: vectors of inputs out of vectors of their tokens, for a model whose engine does not pool them.

With `late_chunking` true such a model's child runs with `--pooling none`. A request with `late_chunking` true gives the
parts of one document: they are read as one text, so that every token knows what stands around its part, and each part's
vector is the mean over its own tokens. Any other request gets what the model would give without all that.
"""

import operator
from collections.abc import Callable, Sequence

from blazar.errors import DocumentTooLong, RequestRefused
from blazar.proxy.embedder import Embedder
from blazar.proxy.exchange import Embedded, Exchange
from blazar.proxy.tokens import Fetch
from blazar.proxy.vectors import normalised

Rows = Callable[[Exchange, str, dict[str, object], Callable[[list[float]], None]], None]
"""Asks the child of an exchange for the vectors of one input's tokens, and hands them on one by one:
`Dispatch.fetch_rows`."""
FIRST, LAST = 2, 3
"""llama.cpp's numbers for models whose vector is that of their first, or last, token; else it is the mean."""


class TokenEmbedder(Embedder):
    """`pooling` is how the model's file says that vectors of tokens become the text's; `most` are the tokens that a
    document with late chunking may have."""

    batch = 1

    def __init__(self, fetch: Fetch, rows: Rows, exchange: Exchange, pooling: int, most: int) -> None:
        super().__init__(fetch, exchange)
        self._rows = rows
        self._pooling = pooling
        self._most = most

    def embed(self) -> Embedded:
        """Raises DocumentTooLong, and what `Embedder` raises."""
        return self._late() if self._inputs.late else super().embed()

    def _ask(self, batch: Sequence[str | list[int]]) -> Embedded:
        pooled = _Pooled(self._pooling)
        self._read(batch[0], pooled.add)
        if not pooled.total:
            raise self._failed("it sent no vector for any token")
        return Embedded([normalised(pooled.total)], pooled.count)

    def _late(self) -> Embedded:
        parts = [item if isinstance(item, list) else self._tokens(item, add_special=False)
                 for item in self._inputs.items]
        before, after = self._around()
        document = [*before, *(token for part in parts for token in part), *after]
        self._check(parts, len(document))
        spans = [_Pooled() for _ in range(len(parts) + 2)]
        owners = (span for span, size in zip(spans, (len(before), *map(len, parts), len(after)), strict=True)
                  for _ in range(size))

        def add(row: list[float]) -> None:
            owner = next(owners, None)
            if owner is None:
                raise self._failed(f"it sent more than the {len(document)} vectors of the document's tokens")
            owner.add(row)

        self._read(document, add)
        if next(owners, None) is not None:
            raise self._failed(f"it did not send {len(document)} vectors, one for each token of the document")
        return Embedded([normalised(span.total) for span in spans[1:-1]], len(document))

    def _read(self, text: str | list[int], add: Callable[[list[float]], None]) -> None:
        """Have the child read a text, and `add` the vectors of its tokens, in their order."""
        lengths: set[int] = set()

        def take(row: list[float]) -> None:
            lengths.add(len(row))
            if len(lengths) > 1:
                raise self._failed("its vectors are not all of one length")
            add(row)

        self._rows(self._exchange, "/embeddings", {"input": text}, take)

    def _around(self) -> tuple[list[int], list[int]]:
        """The tokens that the engine puts before and behind a text."""
        first = self._inputs.items[0]
        if isinstance(first, list):
            return [], []  # who sends tokens sends all of them
        whole, bare = self._tokens(first), self._tokens(first, add_special=False)
        more = len(whole) - len(bare)
        before = next((size for size in range(more + 1) if whole[size:size + len(bare)] == bare), more)
        return whole[:before], whole[before + len(bare):]

    def _check(self, parts: list[list[int]], tokens: int) -> None:
        empty = next((number for number, part in enumerate(parts) if not part), None)
        if empty is not None:
            raise RequestRefused(f"`input[{empty}]` has no token of its own to make a vector of: leave it out")
        ctx = self._exchange.endpoint.ctx if self._exchange.endpoint else 0
        if ctx and tokens > min(ctx, self._most):
            lever = "`late_chunking_max_tokens` is the limit" if self._most < ctx else "that is its context"
            raise DocumentTooLong(model=self._exchange.model, tokens=tokens, limit=min(ctx, self._most), lever=lever)


class _Pooled:
    """The vectors of some tokens, made into one."""

    def __init__(self, pooling: int = 0) -> None:
        self._pooling = pooling
        self.total: list[float] = []
        """Their sum, or the one that counts; its length is of no matter."""
        self.count = 0

    def add(self, row: list[float]) -> None:
        if self._pooling == LAST or not self.count:
            self.total = row
        elif self._pooling != FIRST:
            self.total = list(map(operator.add, self.total, row))
        self.count += 1
