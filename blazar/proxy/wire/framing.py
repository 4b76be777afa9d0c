"""How long a message body is: length, chunked, or until close. Follows the bytes across any split.

`feed` takes wire bytes and returns the payload in them. `ended` says that the body is whole; `clean` that no byte
came after its end, so the connection may be used again; `rest` are the bytes after the end; `at_boundary` says
that a new chunk could begin after what was fed without an error.
"""

from typing import Final

MAX_LINE: Final = 4096
"""Bytes of the longest chunk-size or trailer line."""
MAX_TRAILER: Final = 16384
LAST_CHUNK: Final = b"0\r\n\r\n"
"""How a body ends that has no trailer."""
HEXADECIMAL: Final = b"0123456789abcdefABCDEF"
WHOLE: Final = {b"%x\r\n" % size: len(b"%x" % size) + size + 4 for size in range(1, 2048)}
"""How many bytes a chunk has in all, by the line of its size, for those that events come in."""


class BadFraming(Exception):
    """The peer broke the rules of HTTP framing."""


class Framing:
    """What all of them have; `feed` is each one's own."""

    def __init__(self) -> None:
        self.ended = False
        self.clean = True
        self.rest = b""
        self.at_boundary = False

    def feed(self, data: bytes) -> bytes:
        raise NotImplementedError

    def close(self) -> bool:
        """The peer closed; whether the body was whole."""
        return self.ended


class LengthFraming(Framing):
    """A body of known length."""

    def __init__(self, length: int) -> None:
        super().__init__()
        self.left = length
        self.ended = length == 0

    def feed(self, data: bytes) -> bytes:
        left = self.left - len(data)
        if left < 0:
            data, self.rest, self.clean, left = data[:self.left], data[self.left:], False, 0
        self.left = left
        self.ended = left == 0
        return data


class CloseFraming(Framing):
    """A body that ends with the connection."""

    def __init__(self) -> None:
        super().__init__()
        self.clean, self.at_boundary = False, True

    def feed(self, data: bytes) -> bytes:
        return data

    def close(self) -> bool:
        self.ended = True
        return True


class ChunkedFraming(Framing):
    """Chunked transfer coding."""

    def __init__(self) -> None:
        super().__init__()
        self.at_boundary = True
        self._left = 0
        """Bytes of the chunk still to come, with its closing CRLF."""
        self._line = b""
        self._trailer = -1
        """Bytes of trailer seen, or -1 before the last chunk."""

    def feed(self, data: bytes) -> bytes:
        if self.at_boundary:  # most pieces of a stream are one whole chunk
            line = data[:4]
            whole = WHOLE.get(line)
            if whole is None:
                line = data[:5]
                whole = WHOLE.get(line)
            if whole == len(data) and data[-2:] == b"\r\n":
                return data[len(line):-2]
        return self._feed_slowly(data)

    def _feed_slowly(self, data: bytes) -> bytes:
        payload = bytearray()
        position = 0
        while position < len(data):
            if self.ended:
                self.clean, self.rest = False, data[position:]
                break
            if self._left:
                position = self._take_chunk(data, position, payload)
                continue
            fresh = not self._line and self._trailer < 0
            if fresh and data[position:position + 5] == LAST_CHUNK:
                self._trailer, self.ended = 0, True
                position += 5
                continue
            end = data.find(b"\n", position, position + 5) + 1
            whole = WHOLE.get(data[position:end], 0) if end else 0
            after = position + whole
            if fresh and whole and data[after - 2:after] == b"\r\n":
                payload += data[end:after - 2]  # one more whole chunk
                position = after
            else:
                position = self._take_line(data, position)
        self.at_boundary = not (self._left or self._line or self.ended) and self._trailer < 0
        return bytes(payload)

    def _take_chunk(self, data: bytes, position: int, payload: bytearray) -> int:
        part = data[position:position + self._left]
        before = self._left
        self._left -= len(part)
        body = max(0, before - 2)
        payload += part[:body]
        closing = b"\r\n"[2 - min(before, 2):]  # what the bytes past the payload have to be
        if not closing.startswith(part[body:]):
            raise BadFraming("a chunk is longer than its size says")
        return position + len(part)

    def _take_line(self, data: bytes, position: int) -> int:
        end = data.find(b"\n", position)
        self._line += data[position:] if end < 0 else data[position:end + 1]
        if len(self._line) > MAX_LINE:
            raise BadFraming("a chunk-size or trailer line is too long")
        if end < 0:
            return len(data)
        line, self._line = self._line, b""
        if not line.endswith(b"\r\n"):
            raise BadFraming("a chunk-size or trailer line does not end in CRLF")
        self._read_line(line[:-2])
        return end + 1

    def _read_line(self, line: bytes) -> None:
        if self._trailer >= 0:
            self._trailer += len(line)
            if self._trailer > MAX_TRAILER:
                raise BadFraming("the trailer is too long")
            self.ended = not line
            return
        size = _size(line.split(b";")[0].rstrip(b" \t"))
        if size is None:
            raise BadFraming("a chunk size is not a hexadecimal number")
        if size:
            self._left = size + 2
        else:
            self._trailer = 0


def _size(digits: bytes) -> int | None:
    """The chunk size in `digits`, or None when they are not 1 to 15 plain hexadecimal digits."""
    if not 1 <= len(digits) <= 15 or digits.strip(HEXADECIMAL):
        return None
    return int(digits, 16)


def chunk(data: bytes) -> bytes:
    """`data` as one chunk."""
    return b"%x\r\n%b\r\n" % (len(data), data)

