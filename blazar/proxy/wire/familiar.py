"""`Familiar`: the last head of a connection, by which the next is known at once when it differs in nothing but the
length of its body.

What is alike byte for byte was checked before, and means the same. Clients send little else: a new time or a new id in
the head is all that makes another one, which is read as the first was.
"""

import re
from typing import Any

_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]+)", re.IGNORECASE)
LONGEST = 4096
"""Bytes of a head that is remembered: so much is kept for each connection."""
MOST_DIGITS = 15
"""Of a length, as the check of heads has it."""


class Familiar:
    """A head and the environ that was made of it; the parts that are new in each request are not in it."""

    __slots__ = ("_after", "_before", "environ")

    def __init__(self, before: bytes, after: bytes, environ: dict[str, Any]) -> None:
        self._before = before
        self._after = after
        self.environ = environ

    def length(self, raw: bytes) -> int | None:
        """The length that the head `raw` tells, which is otherwise this one; None for any other head."""
        if raw.startswith(self._before) and raw.endswith(self._after):
            digits = raw[len(self._before):len(raw) - len(self._after)]
            if digits.isdigit() and len(digits) <= MOST_DIGITS:
                return int(digits)
        return None


def familiar(raw: bytes, environ: dict[str, Any]) -> Familiar | None:
    """What is to be remembered of a head that was checked; None where that is not worth it."""
    found = _LENGTH.search(raw) if len(raw) <= LONGEST else None
    return found and Familiar(raw[:found.start(1)], raw[found.end(1):], environ)
