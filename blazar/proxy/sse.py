"""`SseReader`: bytes of an event stream in, the data of its events out (WHATWG HTML, event stream)."""

from blazar.errors import ChildFailed
from blazar.units import format_bytes

MAX_EVENT = 16 << 20


class SseReader:
    """Reads the `data` of each event, however the bytes were cut.

    Lines end in LF, CRLF or CR; comments and the fields `event`, `id` and `retry` are passed over; an event without
    data is none. An event of more than `limit` bytes raises ChildFailed.
    """

    def __init__(self, limit: int = MAX_EVENT) -> None:
        self._limit = limit
        self._line: list[bytes] = []
        """Pieces of the line that has not ended yet."""
        self._line_size = 0
        self._data: list[bytes] = []
        self._data_size = 0
        self._after_cr = False
        self._at_start = True

    def feed(self, piece: bytes) -> list[str]:
        """The data of every event that ended within `piece`."""
        if not piece:
            return []
        *ended, rest = self._unify(piece).split(b"\n")
        found: list[str] = []
        for line in ended:
            self._line.append(line)
            self._end_line(found)
        self._line.append(rest)
        self._line_size += len(rest)
        if self._line_size + self._data_size > self._limit:
            raise ChildFailed(f"the engine sent an event of over {format_bytes(self._limit)}")
        return found

    def finish(self) -> list[str]:
        """The data of a last event that the stream ended without a blank line."""
        found: list[str] = []
        self._end_line(found)
        self._dispatch(found)
        return found

    def _unify(self, piece: bytes) -> bytes:
        """`piece` with every line end as LF; an LF that completes the CR before it is no line end of its own."""
        if self._after_cr and piece.startswith(b"\n"):
            piece = piece[1:]
            self._after_cr = False
            if not piece:
                return piece
        self._after_cr = piece.endswith(b"\r")
        return piece.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in piece else piece

    def _end_line(self, found: list[str]) -> None:
        line = b"".join(self._line)
        self._line.clear()
        self._line_size = 0
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            self._dispatch(found)
        elif line.startswith(b"data:") or line == b"data":
            self._data.append(line[5:].removeprefix(b" "))
            self._data_size += len(line)

    def _dispatch(self, found: list[str]) -> None:
        data = b"\n".join(self._data)
        self._data.clear()
        self._data_size = 0
        if data:
            found.append(data.decode(errors="replace"))
