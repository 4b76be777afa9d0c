"""`Familiar`: the last head of a connection, by which the next is known at once when it differs in nothing but the
length of its body.

What is alike byte for byte was checked before, and means the same. Clients and children send little else: a new time or
a new id in the head is all that makes another one, which is read as the first was.
"""

import re
from typing import Generic, TypeVar

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)", re.IGNORECASE)
LONGEST = 4096
"""Bytes of a head that is remembered: so much is kept for each connection."""
MOST_DIGITS = 15
"""Of a length, as the check of heads has it."""

Known = TypeVar("Known")


class Familiar(Generic[Known]):
    """A head, and what is known of all that are like it."""

    __slots__ = ("_after", "_before", "known")

    def __init__(self, before: bytes, after: bytes | None, known: Known) -> None:
        """`before` and `after` the digits of its length; `after` is None when it tells no length."""
        self._before = before
        self._after = after
        self.known = known

    def length(self, raw: bytes) -> int | None:
        """The length that the head `raw` tells, 0 when it tells none; None when it is another head."""
        before, after = self._before, self._after
        if after is None:
            return 0 if raw == before else None
        if raw.startswith(before) and raw.endswith(after):
            digits = raw[len(before):len(raw) - len(after)]
            if digits.isdigit() and len(digits) <= MOST_DIGITS:
                return int(digits)
        return None


def familiar(raw: bytes, known: Known) -> Familiar[Known] | None:
    """What is to be remembered of a head that was checked, with the one length it has; None where that is too much."""
    if len(raw) > LONGEST:
        return None
    found = _LENGTH.search(raw)
    if found is None:
        return Familiar(raw, None, known)
    return Familiar(raw[:found.start(1)], raw[found.end(1):], known)
