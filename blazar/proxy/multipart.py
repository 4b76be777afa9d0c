"""Reading multipart/form-data as it comes: small fields into memory, the one file in pieces, whatever its size."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from blazar.errors import RequestRefused

MOST_FIELDS = 32
MOST_HEAD = 8 << 10
"""Bytes of the head of one part."""
MOST_FIELD = 64 << 10
"""Bytes of a field that is no file."""

_BOUNDARY = re.compile(r'boundary=(?:"([^"\r\n]{1,70})"|([^\s;",]{1,70}))', re.IGNORECASE)
_NAME = re.compile(r'(?:^|;)\s*name="((?:[^"\\]|\\.)*)"', re.IGNORECASE)
_FILENAME = re.compile(r'(?:^|;)\s*filename="((?:[^"\\]|\\.)*)"', re.IGNORECASE)
_ESCAPED = re.compile(r"\\(.)|%(22|0[DA])", re.IGNORECASE)
"""How senders write what may not stand between quotes: with a backslash, or as browsers do."""


@dataclass
class Part:
    """One part: its field's name, the file's name if it is a file, and what it holds in pieces."""

    name: str
    filename: str | None
    pieces: Iterator[bytes]


def boundary_of(content_type: str) -> bytes:
    """The boundary that a request's content type names. Raises RequestRefused."""
    found = _BOUNDARY.search(content_type)
    if not content_type.lower().startswith("multipart/form-data") or found is None:
        raise RequestRefused("send this as multipart/form-data, with its boundary in Content-Type, as "
                             "`curl -F purpose=batch -F file=@requests.jsonl` does")
    return (found[1] or found[2]).encode("latin-1", "replace")


def parts(pieces: Iterator[bytes], boundary: bytes) -> Iterator[Part]:
    """The parts of a body, in their order; each has to be read to its end before the next. Raises RequestRefused."""
    reader = _Reader(pieces)
    mark = b"\r\n--" + boundary
    reader.held = bytearray(b"\r\n")  # the first mark has no line before it
    for _ in reader.until(mark):
        pass  # what comes before the first part is nobody's
    for _ in range(MOST_FIELDS):
        if reader.exactly(2) == b"--":
            for _ in reader.rest():
                pass
            return
        head = reader.whole(b"\r\n\r\n", MOST_HEAD)
        disposition = _disposition(head.decode("utf-8", "replace"))
        name = _NAME.search(disposition)
        if name is None:
            raise RequestRefused("a part of the form has no name")
        filename = _FILENAME.search(disposition)
        body = reader.until(mark)
        yield Part(_plain(name[1]), _plain(filename[1]) if filename else None, body)
        for _ in body:
            pass
    raise RequestRefused(f"the form has more than {MOST_FIELDS} fields")


def text_of(part: Part) -> str:
    """A field that is no file. Raises RequestRefused for one that is too long."""
    data = bytearray()
    for piece in part.pieces:
        data += piece
        if len(data) > MOST_FIELD:
            raise RequestRefused(f"the field {part.name[:60]!r} of the form is longer than {MOST_FIELD >> 10} KiB")
    return data.decode("utf-8", "replace")


def _plain(quoted: str) -> str:
    return _ESCAPED.sub(lambda found: found[1] or chr(int(found[2], 16)), quoted)


def _disposition(head: str) -> str:
    for line in head.split("\r\n"):
        name, _, value = line.partition(":")
        if name.strip().lower() == "content-disposition":
            return value
    return ""


class _Reader:
    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self.held = bytearray()

    def until(self, mark: bytes) -> Iterator[bytes]:
        """What comes before `mark`, which is taken away too."""
        while (place := self.held.find(mark)) < 0:
            sure = len(self.held) - len(mark) + 1  # what follows may be the beginning of the mark
            if sure > 0:
                yield bytes(self.held[:sure])
                del self.held[:sure]
            self._more()
        if place:
            yield bytes(self.held[:place])
        del self.held[:place + len(mark)]

    def whole(self, mark: bytes, most: int) -> bytes:
        data = bytearray()
        for piece in self.until(mark):
            data += piece
            if len(data) > most:
                raise RequestRefused("the head of a part of the form is too long")
        return bytes(data)

    def exactly(self, count: int) -> bytes:
        while len(self.held) < count:
            self._more()
        data = bytes(self.held[:count])
        del self.held[:count]
        return data

    def rest(self) -> Iterator[bytes]:
        self.held.clear()
        yield from self._pieces

    def _more(self) -> None:
        piece = next(self._pieces, None)
        if piece is None:
            raise RequestRefused("the form ends before its last boundary")
        self.held += piece
