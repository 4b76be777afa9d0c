"""The head of a child's answer, read strictly: what is not plainly HTTP/1.x ends the attempt."""

import re
from dataclasses import dataclass
from functools import lru_cache

from blazar.proxy.wire.familiar import Familiar, familiar
from blazar.proxy.wire.framing import BadFraming, ChunkedFraming, CloseFraming, Framing, LengthFraming

MAX_HEAD = 65536
"""Bytes of the longest head a child may send."""

BODILESS = (204, 304)
"""Statuses of answers without a body, whatever their head says."""

_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) ([1-5]\d\d)(?: [^\r\n\0]*)?")
_FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([^\r\n\0]*?)[ \t]*")


@dataclass
class Head:
    """Status, header fields by lower-case name, and how the body is framed."""

    status: int
    fields: dict[str, str]
    framing: Framing
    keeps: bool
    """Whether the child keeps the connection after this answer."""
    chunked: bool
    length: int | None
    """Bytes of the body, where the head tells them."""

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
    framing = _framing(status, fields)
    return Head(status, fields, framing, keeps, isinstance(framing, ChunkedFraming),
                framing.left if isinstance(framing, LengthFraming) else None)


class HeadReader:
    """Reads the heads of one connection, which are nearly always like the one before."""

    def __init__(self) -> None:
        self._familiar: Familiar[Head] | None = None

    def read(self, raw: bytes) -> Head:
        """As `parse_head`."""
        last = self._familiar
        length = last.length(raw) if last is not None else None
        if last is None or length is None:
            head = parse_head(raw)
            self._familiar = familiar(raw, head) if head.status not in BODILESS and head.status >= 200 else None
            return head
        known = last.known
        if known.length is not None:
            return Head(known.status, known.fields, LengthFraming(length), known.keeps, False, length)
        return Head(known.status, known.fields, ChunkedFraming() if known.chunked else CloseFraming(), known.keeps,
                    known.chunked, None)


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


def _framing(status: int, fields: dict[str, str]) -> Framing:
    coding, length = fields.get("transfer-encoding"), fields.get("content-length")
    if status in BODILESS or status < 200:
        return LengthFraming(0)
    if coding is not None:
        if coding.lower() != "chunked" or length is not None:
            raise BadFraming(f"it frames its body by transfer-encoding {coding!r} and content-length {length!r}")
        return ChunkedFraming()
    if length is None:
        return CloseFraming()
    if not (length.isascii() and length.isdigit() and len(length) <= 15):
        raise BadFraming(f"its content-length is {length[:40]!r}")
    return LengthFraming(int(length))
