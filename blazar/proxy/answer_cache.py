"""`AnswerCache`: answers kept for a while, found again for nearly the same question. Pure: the clock is given.

A question has a `shape`, all of the request but its last text, and that text with its vector. Only questions of one
shape are compared, by the cosine of their vectors; the same text needs none.
"""

import operator
from array import array
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from blazar.proxy.exchange import Usage
from blazar.proxy.vectors import normalised

MOST_BYTES = 32 << 20
"""Bytes of all that is kept."""
OVERHEAD = 1024
"""Bytes that an entry takes besides its texts and its vector, about."""


@dataclass(frozen=True)
class Kept:
    """An answer, as far as it is the same whoever asks."""

    text: str
    thinking: str = ""
    stop_text: str | None = None
    usage: Usage = field(default_factory=Usage)


@dataclass(eq=False)
class _Entry:
    shape: bytes
    text: str
    vector: Sequence[float]
    kept: Kept
    born: float

    @property
    def size(self) -> int:
        words = len(self.text) + len(self.kept.text) + len(self.kept.thinking)
        return 4 * words + 4 * len(self.vector) + OVERHEAD


@dataclass(frozen=True)
class Found:
    kept: Kept
    age: float
    """Seconds for which it has been kept."""
    similarity: float


class AnswerCache:
    """At most `most` answers, and `most_bytes`, each for `ttl` seconds; what was used longest ago goes first."""

    def __init__(self, most: int, ttl: float, threshold: float, clock: Callable[[], float],
                 most_bytes: int = MOST_BYTES, pace: Callable[[], None] = lambda: None) -> None:
        """`pace` is called between two comparisons, of which many take long."""
        self._most = most
        self._most_bytes = most_bytes
        self._ttl = ttl
        self._threshold = threshold
        self._clock = clock
        self._pace = pace
        self._order: OrderedDict[_Entry, None] = OrderedDict()
        self._shapes: dict[bytes, dict[str, _Entry]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._order)

    def same(self, shape: bytes, text: str) -> Found | None:
        """The answer to this very question."""
        entry = self._living(shape).get(text)
        return None if entry is None else self._use(entry, 1.0)

    def nearest(self, shape: bytes, vector: Sequence[float]) -> Found | None:
        """The answer to the question most like this one, if it is like enough."""
        wanted = array("f", normalised(list(vector)))
        best, likeness = None, self._threshold
        for entry in [*self._living(shape).values()]:
            self._pace()
            if len(entry.vector) == len(wanted):
                cosine = sum(map(operator.mul, entry.vector, wanted))
                if cosine >= likeness:
                    best, likeness = entry, cosine
        return None if best is None or best not in self._order else self._use(best, likeness)

    def put(self, shape: bytes, text: str, vector: Sequence[float], kept: Kept) -> None:
        """Keep an answer, in place of an older one to the same question."""
        entry = _Entry(shape, text, array("f", normalised(list(vector))), kept, self._clock())
        if entry.size > self._most_bytes:
            return
        former = self._shapes.get(shape, {}).get(text)
        if former is not None:
            self._drop(former)
        self._shapes.setdefault(shape, {})[text] = entry
        self._order[entry] = None
        self._bytes += entry.size
        while len(self._order) > self._most or self._bytes > self._most_bytes:
            self._drop(next(iter(self._order)))

    def _living(self, shape: bytes) -> dict[str, _Entry]:
        oldest = self._clock() - self._ttl
        for entry in [*self._shapes.get(shape, {}).values()]:
            if entry.born <= oldest:
                self._drop(entry)
        return self._shapes.get(shape, {})

    def _use(self, entry: _Entry, similarity: float) -> Found:
        self._order.move_to_end(entry)
        return Found(entry.kept, self._clock() - entry.born, similarity)

    def _drop(self, entry: _Entry) -> None:
        del self._order[entry]
        self._bytes -= entry.size
        same_shape = self._shapes[entry.shape]
        del same_shape[entry.text]
        if not same_shape:
            del self._shapes[entry.shape]
