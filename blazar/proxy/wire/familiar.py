"""Heads that are known already: the last one of a connection, and the last ones of many.

One that differs from them in nothing but the length of its body is known at once: what is alike byte for byte was
checked before, and means the same. Clients and children send little else: a new time or a new id in the head is all
that makes another one, which is read as the first was.
"""

import re
from typing import Final, Generic, TypeVar

LENGTH: Final = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)", re.IGNORECASE)
LONGEST: Final = 4096
"""Bytes of a head that is remembered: so much is kept for each connection."""
MOST_DIGITS: Final = 15
"""Of a length, as the check of heads has it."""
MOST: Final = 64
"""Heads that are remembered for all connections together."""

Known = TypeVar("Known")
Ends = tuple[bytes, bytes | None]
"""What stands before and after the digits of a head's length; None after a head that tells none."""


class Familiar(Generic[Known]):
    """A head, and what is known of all that are like it."""

    __slots__ = ("_after", "_before", "_last", "_told", "known")

    def __init__(self, ends: Ends, known: Known) -> None:
        self._before, self._after = ends
        self.known = known
        self._last, self._told = b"", 0
        """The head that was met last, and its length."""

    def length(self, raw: bytes) -> int | None:
        """The length that the head `raw` tells, 0 when it tells none; None when it is another head."""
        if raw and raw == self._last:
            return self._told
        before, after = self._before, self._after
        if after is None:
            return 0 if raw == before else None
        start, end = len(before), len(raw) - len(after)
        if start < end and raw.startswith(before) and raw.endswith(after):
            digits = raw[start:end]
            if digits.isdigit() and len(digits) <= MOST_DIGITS:
                self._last, self._told = raw, int(digits)
                return self._told
        return None


def familiar(raw: bytes, known: Known) -> Familiar[Known] | None:
    """What is to be remembered of a head that was checked, with the one length it has; None where that is too much."""
    return Familiar(_ends(raw), known) if len(raw) <= LONGEST else None


def _ends(raw: bytes) -> Ends:
    found = LENGTH.search(raw)
    return (raw, None) if found is None else (raw[:found.start(1)], raw[found.end(1):])


class Heads(Generic[Known]):
    """The heads that many connections sent last."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._known: dict[Ends, Known] = {}

    def find(self, raw: bytes) -> Familiar[Known] | None:
        """What is remembered of a head like `raw`; None when there was none of late."""
        if len(raw) > LONGEST:
            return None
        ends = _ends(raw)
        known = self._known.get(ends)
        if known is None:
            return None
        found = Familiar(ends, known)
        if found.length(raw) is None:
            return None
        self._known[ends] = self._known.pop(ends)  # the last to be forgotten
        return found

    def keep(self, raw: bytes, known: Known) -> Familiar[Known]:
        """Remember a head that was checked, unless that is too much."""
        ends = _ends(raw)
        if len(raw) <= LONGEST:
            self._known[ends] = known
            if len(self._known) > self._most:
                del self._known[next(iter(self._known))]
        return Familiar(ends, known)
