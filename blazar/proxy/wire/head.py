"""The head of a child's answer, read strictly: what is not plainly HTTP/1.x ends the attempt."""

import re
from dataclasses import dataclass
from functools import lru_cache

from blazar.proxy.wire.framing import BadFraming, ChunkedFraming, CloseFraming, Framing, LengthFraming

MAX_HEAD = 65536
"""Bytes of the longest head a child may send."""

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

    @property
    def chunked(self) -> bool:
        return isinstance(self.framing, ChunkedFraming)

    @property
    def length(self) -> int | None:
        return self.framing.left if isinstance(self.framing, LengthFraming) else None


def parse_head(raw: bytes) -> Head:
    """The head in `raw`, which ends before the empty line. Raises BadFraming for anything irregular."""
    first, *lines = raw.split(b"\r\n")
    status_line = _STATUS_LINE.fullmatch(first)
    if status_line is None:
        raise BadFraming(f"its first line is {first[:80]!r}")
    fields: dict[str, str] = {}
    for name, value in map(_field, lines):
        fields[name] = f"{fields[name]}, {value}" if name in fields else value
    status = int(status_line[2])
    connection = fields.get("connection", "").lower()
    keeps = "keep-alive" in connection if status_line[1] == b"0" else "close" not in connection
    return Head(status, fields, _framing(status, fields), keeps)


@lru_cache(256)
def _field(line: bytes) -> tuple[str, str]:
    matched = _FIELD.fullmatch(line)
    if matched is None:
        raise BadFraming(f"a header line is {line[:80]!r}")
    return matched[1].decode("ascii").lower(), matched[2].decode("latin-1")


def _framing(status: int, fields: dict[str, str]) -> Framing:
    coding, length = fields.get("transfer-encoding"), fields.get("content-length")
    if status in (204, 304) or status < 200:
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
