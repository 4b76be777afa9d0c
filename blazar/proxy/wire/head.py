"""The head of a child's answer, read strictly: what is not plainly HTTP/1.x ends the attempt."""

import re
from functools import lru_cache
from typing import Final

from blazar.proxy.wire.familiar import LENGTH, LONGEST, MOST_DIGITS
from blazar.proxy.wire.framing import BadFraming, ChunkedFraming, CloseFraming, Framing, LengthFraming

MAX_HEAD: Final = 65536
"""Bytes of the longest head a child may send."""

BODILESS: Final = (204, 304)
"""Statuses of answers without a body, whatever their head says."""
EVENTS: Final = "text/event-stream"
ANSWERS: Final = ("application/json", EVENTS)
"""Content types of answers that are passed on as they are."""
END: Final = b"\r\n\r\n"
MOST_KNOWN: Final = 4
"""Heads that are remembered of one child."""
KEPT_IDLE: Final = 60.0
"""Seconds for which an unused connection is kept where the child does not say for how long it keeps it."""

_STATUS_LINE: Final = re.compile(rb"HTTP/1\.([01]) ([1-5]\d\d)(?: [^\r\n\0]*)?")
_TIMEOUT: Final = re.compile(r"(?:^|[,;\s])timeout\s*=\s*\"?(\d{1,9})", re.IGNORECASE)
_FIELD: Final = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([^\r\n\0]*?)[ \t]*")


class Head:
    """Status, header fields by lower-case name, without the length, and how the body is framed. The same for all
    answers that begin alike, so nobody changes it."""

    def __init__(self, status: int, fields: dict[str, str], keeps: bool, chunked: bool, length: int | None) -> None:
        self.status = status
        self.fields = fields
        self.keeps = keeps
        """Whether the child keeps the connection after this answer."""
        self.kept: float = _kept(fields.get("keep-alive", ""))
        """Seconds for which an unused connection may be kept after it."""
        self.chunked = chunked
        self.length = length
        """Bytes of the body, where the head tells them."""
        self.kind: str = fields.get("content-type", "application/json")
        self.streams: bool = status == 200 and self.kind.startswith(EVENTS)
        """A stream of events follows."""
        self.answers: bool = self.kind.lower().startswith(ANSWERS)
        """What follows can be the answer of a model."""

    def of_length(self, length: int) -> "Head":
        """The same with a body of so many bytes."""
        return Head(self.status, self.fields, self.keeps, self.chunked, length)

    def framing(self) -> Framing:
        """A new reader for the body."""
        if self.length is not None:
            return LengthFraming(self.length)
        return ChunkedFraming() if self.chunked else CloseFraming()

    @property
    def ends_by_closing(self) -> bool:
        """The end of its body is that of the connection, so it may as well have broken off."""
        return self.length is None and not self.chunked


def parse_head(raw: bytes) -> Head:
    """The head in `raw`, which ends before the empty line. Raises BadFraming for anything irregular."""
    first, *lines = raw.split(b"\r\n")
    status, keeps = _status_line(first)
    parsed = tuple(map(_field, lines))
    fields = dict(parsed)
    if len(fields) < len(parsed):
        fields = {name: ", ".join(value for known, value in parsed if known == name) for name in fields}
    connection = fields.get("connection")
    if connection is not None:
        connection = connection.lower()
        keeps = "close" not in connection if keeps else "keep-alive" in connection
    chunked, length = _framing(status, fields)
    fields.pop("content-length", None)
    return Head(status, fields, keeps, chunked, length)


def _kept(told: str) -> float:
    """`told` is the field Keep-Alive: the connection is given up before the child does that."""
    found = _TIMEOUT.search(told)
    if found is None:
        return KEPT_IDLE
    timeout = float(found[1])
    return min(KEPT_IDLE, max(timeout - 1, timeout / 2))


class HeadReader:
    """Reads the heads of one child's answers, which are nearly always like one before, but for the length."""

    def __init__(self) -> None:
        self._known: list[_Known] = []

    def read(self, data: bytes) -> tuple[Head, bytes] | None:
        """The head with which `data` begins, and what follows it; None while its end is not there. Raises as
        `parse_head`."""
        for known in self._known:
            found = known.read(data)
            if found is not None:
                return found
        raw, end, rest = data.partition(END)
        if not end:
            return None
        head = parse_head(raw)
        if head.status >= 200 and head.status not in BODILESS and len(raw) <= LONGEST:
            self._known = [_Known(raw, head), *self._known[:MOST_KNOWN - 1]]
        return head, rest


class _Known:
    """A head that was read, and the bytes around the digits of its length."""

    def __init__(self, raw: bytes, head: Head) -> None:
        found = LENGTH.search(raw) if head.length is not None else None
        self._before = raw[:found.start(1)] if found is not None else raw + END
        self._after = raw[found.end(1):] + END if found is not None else b""
        self._start, self._head = len(self._before), head

    def read(self, data: bytes) -> tuple[Head, bytes] | None:
        """As HeadReader has it; None for another head."""
        if not data.startswith(self._before):
            return None
        head, start = self._head, self._start
        if not self._after:
            return head, data[start:]
        end = data.find(b"\r", start, start + MOST_DIGITS + 1)
        if end < 0:
            return None
        digits = data[start:end]
        if not (digits.isdigit() and data.startswith(self._after, end)):
            return None
        length = int(digits)
        return head if length == head.length else head.of_length(length), data[end + len(self._after):]


# A child sends the same lines again and again, and the same line means the same.

@lru_cache(64)
def _status_line(line: bytes) -> tuple[int, bool]:
    """The status, and whether the connection is kept unless a field says otherwise."""
    matched = _STATUS_LINE.fullmatch(line)
    if matched is None:
        raise BadFraming(f"its first line is {line[:80]!r}")
    return int(matched[2]), matched[1] == b"1"


@lru_cache(256)
def _field(line: bytes) -> tuple[str, str]:
    matched = _FIELD.fullmatch(line)
    if matched is None:
        raise BadFraming(f"a header line is {line[:80]!r}")
    return matched[1].decode("ascii").lower(), matched[2].decode("latin-1")


def _framing(status: int, fields: dict[str, str]) -> tuple[bool, int | None]:
    """Whether the body comes in chunks, and its length where that is told."""
    coding, length = fields.get("transfer-encoding"), fields.get("content-length")
    if status in BODILESS or status < 200:
        return False, 0
    if coding is not None:
        if coding.lower() != "chunked" or length is not None:
            raise BadFraming(f"it frames its body by transfer-encoding {coding!r} and content-length {length!r}")
        return True, None
    if length is None:
        return False, None
    if not (length.isascii() and length.isdigit() and len(length) <= MOST_DIGITS):
        raise BadFraming(f"its content-length is {length[:40]!r}")
    return False, int(length)
