"""Raw requests and what has to come of them: tests/data/wire/heads/NAME.request and NAME.expected.

In a `.request` the line breaks of the file say nothing; `\\r`, `\\n`, `\\t`, `\\0`, `\\\\` and `\\xNN` stand for their
bytes.
A `.expected` has the statuses of the `answers`, how many requests reach the `child`, whether the connection stays
`open` after them, and sometimes the `code` of the error; `stock` is false where versions of gunicorn differ. A
`hostile-` request holds another one that somebody might see who reads it differently.
"""

import json
import re
import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "data" / "wire" / "heads"
NUDGE = b"X_Nudge: gunicorn's parser\r\n"
"""A field that no application gets to see, and with which our worker asks gunicorn's parser."""
_ESCAPED = re.compile(rb"\\(r|n|t|0|\\|x[0-9a-f]{2})")
_PLAIN = {b"r": b"\r", b"n": b"\n", b"t": b"\t", b"0": b"\0", b"\\": b"\\"}


@dataclass
class Case:
    name: str
    data: bytes
    expected: dict[str, Any]

    @property
    def hostile(self) -> bool:
        return self.name.startswith("hostile-")

    def nudged(self) -> bytes:
        """The same with a field of no consequence after its first line."""
        start = len(self.data) - len(self.data.lstrip(b"\r\n"))
        end = self.data.find(b"\r\n", start) + 2
        return self.data[:end] + NUDGE + self.data[end:] if end > 1 else self.data


def cases() -> list[Case]:
    return [Case(file.stem, unescape(file.read_bytes()), json.loads(file.with_suffix(".expected").read_text()))
            for file in sorted(FOLDER.glob("*.request"))]


def unescape(text: bytes) -> bytes:
    return _ESCAPED.sub(lambda found: _PLAIN.get(found[1]) or bytes.fromhex(found[1][1:].decode()),
                        text.replace(b"\n", b""))


@dataclass
class Answered:
    status: int
    fields: dict[str, str]
    body: bytes = b""


@dataclass
class Reader:
    """Reads answers off a socket one after the other, strictly by their framing."""

    sock: socket.socket
    ended: bool = False
    _buffer: bytes = field(default=b"", repr=False)

    def answer(self, headless: bool = False) -> Answered | None:
        """The next one; None when the other side closed instead. Raises AssertionError when it is cut or garbled."""
        top = self._until(b"\r\n\r\n")
        if top is None:
            assert not self._buffer, self._buffer
            return None
        first, *lines = top.decode("latin-1").split("\r\n")
        fields = dict(line.lower().split(": ", 1) for line in lines)
        matched = re.fullmatch(r"HTTP/1\.1 (\d\d\d) .*", first)
        assert matched, first
        answered = Answered(int(matched[1]), fields)
        if not headless and answered.status >= 200:
            answered.body = self._body(fields)
        return answered

    def _body(self, fields: dict[str, str]) -> bytes:
        if fields.get("transfer-encoding") == "chunked":
            body = b""
            while size := int(self._whole(b"\r\n").partition(b";")[0], 16):
                body += self._exactly(size + 2)[:-2]
            while self._whole(b"\r\n"):
                pass  # a trailer
            return body
        if "content-length" in fields:
            return self._exactly(int(fields["content-length"]))
        while self._more():
            pass
        body, self._buffer = self._buffer, b""
        return body

    def _whole(self, mark: bytes) -> bytes:
        found = self._until(mark)
        assert found is not None, "closed within an answer"
        return found

    def _until(self, mark: bytes) -> bytes | None:
        while mark not in self._buffer:
            if not self._more():
                return None
        found, _, self._buffer = self._buffer.partition(mark)
        return found

    def _exactly(self, size: int) -> bytes:
        while len(self._buffer) < size:
            assert self._more(), "closed within an answer"
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        return found

    def _more(self) -> bool:
        if not self.ended:
            try:
                data = self.sock.recv(65536)
            except ConnectionResetError:
                data = b""
            self.ended = not data
            self._buffer += data
        return not self.ended
