"""The head of a client's request, read strictly: the one check that stands before every parser.

What two readers could understand differently is refused: both ways of framing, a repeated length or Host, folded
lines, bare line ends, control characters. So whoever reads the head next sees what was checked here.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

from blazar.errors import ExpectationRefused, HeadRefused, HeadTooLarge
from blazar.proxy.wire.framing import ChunkedFraming, Framing, LengthFraming

MAX_HEAD: Final = 65536
"""Bytes of the longest head."""
MAX_LINE: Final = 8000
"""Bytes of its longest line."""
MAX_FIELDS: Final = 100
END: Final = b"\r\n\r\n"
ONCE: Final = ("host", "content-length", "transfer-encoding", "content-type", "expect")
"""Fields that may stand in a head only once."""

CHUNKED_ONLY: Final = "transfer-encoding may only be `chunked`, in HTTP/1.1 and without content-length"

_REQUEST_LINE: Final = re.compile(rb"([A-Z][A-Z_-]{2,19}) ([\x21-\x7e]+) HTTP/1\.([01])")
_TARGET: Final = re.compile(r"/[^#]*|https?://[^/?#@]+(?:[/?][^#]*)?", re.IGNORECASE)
_FIELD: Final = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*")
_AUTHORITY: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~-]*)(?::[0-9]{0,5})?")
_LENGTH: Final = re.compile(r"[0-9]{1,15}")
_BARE_LINE_END: Final = re.compile(rb"(?<!\r)\n|\r(?!\n|$)|\0")
_GLANCE: Final = re.compile(rb"([A-Z]+) (?:https?://[^/ ]*)?(/[^ ?\r\n]*)")


class RequestHead(NamedTuple):
    """A head that passed. `fields` are in their order, names in lower case; `old` says HTTP/1.0."""

    method: str
    target: str
    old: bool
    fields: tuple[tuple[str, str], ...]
    values: dict[str, str]
    """The fields by name; the values of a repeated one are joined by commas."""

    def field(self, name: str) -> str | None:
        return self.values.get(name)

    def framing(self) -> Framing:
        """A new reader for the request's body."""
        if self.field("transfer-encoding") is not None:
            return ChunkedFraming()
        return LengthFraming(int(self.field("content-length") or 0))


def receive_head(data: bytes, receive: Callable[[], bytes]) -> tuple[bytes, bytes]:
    """The head that begins with `data`, without its empty line, and what came after it.

    `receive` gives more bytes, at least one; it raises whatever its owner likes when there are none. Empty lines
    before the head are skipped. Raises HeadRefused as soon as no head can come of the bytes.
    """
    end = data.find(END)
    if end > 0 and not data.startswith(b"\r\n"):
        return data[:end], data[end + len(END):]
    size, looked = len(data), 0
    while True:
        while data.startswith(b"\r\n"):
            data = data[2:]
        end = data.find(END, max(0, looked - len(END)))
        if end >= 0:
            return data[:end], data[end + len(END):]
        _check_beginning(data, looked)
        if size > MAX_HEAD:
            raise HeadTooLarge(limit=f"{MAX_HEAD} bytes")
        looked = len(data)
        more = receive()
        data, size = data + more, size + len(more)


def _check_beginning(data: bytes, looked: int) -> None:
    """Refuse what waiting for more cannot mend: the client may wait for our answer by now."""
    if data and data != b"\r" and not data[:1].isupper():
        raise HeadRefused(reason="it does not begin with a method in capital letters")
    if _BARE_LINE_END.search(data, max(0, looked - 1)):
        raise HeadRefused(reason="a line does not end in CR LF, or holds a NUL")


def check_head(raw: bytes) -> RequestHead:
    """The head in `raw`, which ends before the empty line. Raises HeadRefused and its kin."""
    if len(raw) > MAX_HEAD:
        raise HeadTooLarge(limit=f"{MAX_HEAD} bytes")
    first, *lines = raw.split(b"\r\n")
    if len(lines) > MAX_FIELDS:
        raise HeadTooLarge(limit=f"{MAX_FIELDS} header fields")
    if len(raw) > MAX_LINE and any(len(line) > MAX_LINE for line in (first, *lines)):
        raise HeadTooLarge(limit=f"{MAX_LINE} bytes in a line")
    method, target, old = _request_line(first)
    fields = tuple(map(_field, lines))
    values = dict(fields)
    if len(values) < len(fields):
        values = _joined(fields)
    if "host" not in values and not old:
        raise HeadRefused(reason="it has no host field, which HTTP/1.1 demands")
    if "transfer-encoding" in values and ("content-length" in values or old):
        raise HeadRefused(reason=CHUNKED_ONLY)
    return RequestHead(method, target, old, fields, values)


# One client sends the same lines again and again, and the same line means the same.

@lru_cache(64)
def _request_line(line: bytes) -> tuple[str, str, bool]:
    matched = _REQUEST_LINE.fullmatch(line)
    if matched is None:
        raise HeadRefused(reason=f"its first line is {_shown(line)}, not METHOD /path HTTP/1.1")
    method, target = matched[1].decode(), matched[2].decode()
    if not (_TARGET.fullmatch(target) or (target == "*" and method == "OPTIONS")):
        raise HeadRefused(reason=f"{_shown(matched[2])} is neither a path nor an http URL")
    _check_authority(authority_of(target))
    return method, target, matched[3] == b"0"


@lru_cache(256)
def _field(line: bytes) -> tuple[str, str]:
    matched = _FIELD.fullmatch(line)
    if matched is None:
        raise HeadRefused(reason=f"{_shown(line)} is not a header field, `Name: value` on one line")
    name, value = matched[1].decode().lower(), matched[2].decode("latin-1")
    check = CHECKS.get(name)
    if check is not None:
        check(value)
    return name, value


def _joined(fields: tuple[tuple[str, str], ...]) -> dict[str, str]:
    names = [name for name, _ in fields]
    for name in ONCE:
        if names.count(name) > 1:
            raise HeadRefused(reason=f"it has more than one {name} field")
    return {name: ",".join(value for known, value in fields if known == name) for name in names}


def _check_length(value: str) -> None:
    if not _LENGTH.fullmatch(value):
        raise HeadRefused(reason=f"content-length {value[:40]!r} is not a number of bytes")


def _check_coding(value: str) -> None:
    if value.lower() != "chunked":
        raise HeadRefused(reason=CHUNKED_ONLY)


def _check_expectation(value: str) -> None:
    if value.lower() != "100-continue":
        raise ExpectationRefused(expectation=value[:40])


def _check_authority(authority: str) -> None:
    if not _AUTHORITY.fullmatch(authority):
        raise HeadRefused(reason=f"{authority[:80]!r} is not a host and a port")


CHECKS: Final = {"host": _check_authority, "content-length": _check_length, "transfer-encoding": _check_coding,
          "expect": _check_expectation}
"""What the value of a field must be."""


def authority_of(target: str) -> str:
    """Host and port of a target that is a whole URL; empty for a path."""
    scheme, found, rest = target.partition("://")
    return re.split(r"[/?#]", rest, maxsplit=1)[0] if found and "/" not in scheme else ""


def glance(data: bytes) -> tuple[str, str]:
    """Method and path of a head that was refused, as far as they can be told; else empty."""
    matched = _GLANCE.match(data)
    return (matched[1].decode(), matched[2].decode("latin-1")) if matched else ("", "")


def _shown(data: bytes) -> str:
    return repr(data[:80])[1:]
