"""Which bytes of a file are there: a sorted list of half-open spans that do not touch. Pure."""

import bisect
from collections.abc import Iterable
from typing import Any


class Spans:
    """A set of byte positions."""

    def __init__(self, spans: Iterable[tuple[int, int]] = ()) -> None:
        self._spans: list[tuple[int, int]] = []
        for start, end in spans:
            self.add(start, end)

    @classmethod
    def read(cls, raw: Any) -> "Spans":
        """The spans of a JSON list of pairs. Raises ValueError for anything that is not one."""
        if not isinstance(raw, list):
            raise ValueError("not a list of spans")
        spans = cls()
        for pair in raw:
            if not (isinstance(pair, list) and len(pair) == 2 and all(type(place) is int for place in pair)
                    and 0 <= pair[0] < pair[1]):
                raise ValueError(f"not a span: {pair!r}")
            spans.add(*pair)
        return spans

    def __iter__(self) -> Any:
        return iter(self._spans)

    @property
    def total(self) -> int:
        """How many bytes are there."""
        return sum(end - start for start, end in self._spans)

    @property
    def frontier(self) -> int:
        """How many bytes are there from the beginning without a hole."""
        return self._spans[0][1] if self._spans and self._spans[0][0] == 0 else 0

    @property
    def end(self) -> int:
        """One beyond the last byte that is there."""
        return self._spans[-1][1] if self._spans else 0

    def add(self, start: int, end: int) -> None:
        if start >= end:
            return
        first = bisect.bisect_left(self._spans, start, key=lambda span: span[1])
        last = bisect.bisect_right(self._spans, end, key=lambda span: span[0])
        touched = self._spans[first:last]
        if touched:
            start, end = min(start, touched[0][0]), max(end, touched[-1][1])
        self._spans[first:last] = [(start, end)]

    def clip(self, size: int) -> "Spans":
        """Those below `size`."""
        return Spans((start, min(end, size)) for start, end in self._spans if start < size)

    def gap(self) -> tuple[int, int | None]:
        """The first bytes that are not there; None = up to the end, wherever that is."""
        start = self.frontier
        following = next((begin for begin, _ in self._spans if begin > start), None)
        return start, following
