"""A client that reads answers strictly: whatever is not plain HTTP/1.1 is a fault, and so is a wait."""

import re
import socket
from dataclasses import dataclass

STATUS = re.compile(rb"HTTP/1\.1 ([1-5]\d\d) [^\r\n\0]*")
FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+): ([^\r\n\0]*)")

NEXT = b"HTTP/1.1 "
"""How an answer begins that follows the head of another."""


class Broken(Exception):
    """The answer is not HTTP, or did not come in time."""


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes
    whole: bool
    """Whether the body ended as its framing says."""
    closed: bool
    """Whether the connection is of no further use."""


class Client:
    """One connection, opened anew when it has been closed."""

    def __init__(self, port: int, limit: float = 10.0) -> None:
        self._port = port
        self._limit = limit
        self._sock: socket.socket | None = None
        self._buffer = b""

    def ask(self, data: bytes) -> Answer:
        """Send a request and read its one answer."""
        fresh = self._sock is None
        try:
            return self._ask(data)
        except ConnectionError:
            self.close()
            if fresh:
                raise Broken("the connection was closed without an answer") from None
        return self.ask(data)  # a kept connection may have been closed meanwhile

    def _ask(self, data: bytes) -> Answer:
        if self._sock is None:
            self._connect()
        try:
            self._sock.sendall(data)
        except ConnectionError:
            pass  # what was answered before the close can still be read
        answer = self._read(data.startswith(b"HEAD "))
        if answer.closed:
            self.close()
        elif self._buffer:
            raise Broken(f"bytes follow the answer: {self._buffer[:80]!r}")
        return answer

    def send_and_leave(self, data: bytes) -> list[Answer]:
        """On a connection of its own: send, half-close, and read all that comes until the other side closes."""
        self.close()
        self._connect()
        try:
            self._sock.sendall(data)
            self._sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        answers = []
        try:
            while self._buffer or self._more():
                answers.append(self._read(headless=None))
        except ConnectionError:
            pass
        finally:
            self.close()
        return answers

    def close(self) -> None:
        if self._sock is not None:
            self._sock.close()
        self._sock, self._buffer = None, b""

    def _connect(self) -> None:
        self._sock = socket.create_connection(("127.0.0.1", self._port), timeout=self._limit)
        self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def _more(self) -> bool:
        try:
            data = self._sock.recv(65536)
        except TimeoutError:
            raise Broken(f"nothing came for {self._limit:g} s") from None
        self._buffer += data
        return bool(data)

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            if not self._more():
                raise ConnectionResetError
        found, _, self._buffer = self._buffer.partition(mark)
        return found

    def _read(self, headless: bool | None) -> Answer:
        """`headless`: whether a body is out of the question; None when that is not known (then as lengths say)."""
        status, headers = self._read_head()
        if status == 100:
            return self._read(headless)
        closed = headers.get("connection") == "close"
        try:
            body, whole = self._read_body(headers, headless or status in (204, 304), headless is None)
        except ConnectionError:
            body, whole, closed = b"", False, True
        return Answer(status, headers, body, whole, closed or not whole)

    def _read_head(self) -> tuple[int, dict[str, str]]:
        first, *lines = self._until(b"\r\n\r\n").split(b"\r\n")
        status = STATUS.fullmatch(first)
        fields = [FIELD.fullmatch(line) for line in lines]
        if status is None or None in fields:
            raise Broken(f"not a head: {[first, *lines]}")
        names = [field[1].decode().lower() for field in fields]
        if len(set(names)) < len(names):
            raise Broken(f"a field is repeated: {names}")
        return int(status[1]), {name: field[2].decode("latin-1") for name, field in zip(names, fields, strict=True)}

    def _read_body(self, headers: dict[str, str], bodiless: bool, may_be_head: bool) -> tuple[bytes, bool]:
        if bodiless:
            return b"", True
        if headers.get("transfer-encoding") == "chunked":
            return self._read_chunks()
        if "content-length" in headers:
            return self._read_length(int(headers["content-length"]), may_be_head)
        while self._more():
            pass
        body, self._buffer = self._buffer, b""
        return body, True

    def _read_length(self, length: int, may_be_head: bool) -> tuple[bytes, bool]:
        while may_be_head and len(self._buffer) < min(length, len(NEXT)) and self._more():
            pass
        if may_be_head and self._buffer.startswith(NEXT):
            return b"", True
        while len(self._buffer) < length:
            if not self._more():
                whole = may_be_head and not self._buffer
                self._buffer = b""
                return b"", whole
        body, self._buffer = self._buffer[:length], self._buffer[length:]
        return body, True

    def _read_chunks(self) -> tuple[bytes, bool]:
        parts = []
        try:
            while size := self._chunk_size():
                while len(self._buffer) < size + 2:
                    if not self._more():
                        raise ConnectionResetError
                if self._buffer[size:size + 2] != b"\r\n":
                    raise Broken(f"a chunk is longer than its size says: {self._buffer[:size + 20]!r}")
                parts.append(self._buffer[:size])
                self._buffer = self._buffer[size + 2:]
            while self._until(b"\r\n"):
                pass  # a trailer
        except ConnectionError:
            return b"".join(parts), False
        return b"".join(parts), True

    def _chunk_size(self) -> int:
        digits = self._until(b"\r\n").partition(b";")[0].strip()
        try:
            return int(digits, 16)
        except ValueError:
            raise Broken(f"not a chunk size: {digits[:40]!r}") from None
