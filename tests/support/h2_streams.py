"""HTTP/2 by hand: several requests in one connection, of which one can be given up, as a browser's page does."""

import socket
import ssl
import struct
from pathlib import Path

DATA, HEADERS, RST_STREAM, SETTINGS = 0, 1, 3, 4
END_STREAM, END_HEADERS = 1, 4
CANCEL = 8


class Streams:
    """A connection to a server on this machine. Streams are odd numbers that grow."""

    def __init__(self, port: int, trust: Path) -> None:
        context = ssl.create_default_context(cafile=trust)
        context.set_alpn_protocols(["h2"])
        plain = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._sock = context.wrap_socket(plain, server_hostname="localhost")
        assert self._sock.selected_alpn_protocol() == "h2"
        self._sock.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, b""))
        self._reader = self._sock.makefile("rb")
        self._got: dict[int, bytes] = {}

    def __enter__(self) -> "Streams":
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()
        self._sock.close()

    def post(self, stream: int, path: str, body: bytes, **fields: str) -> None:
        head = {":method": "POST", ":scheme": "https", ":authority": "localhost", ":path": path, **fields}
        block = b"".join(b"\0" + text(name) + text(value) for name, value in head.items())
        self._sock.sendall(frame(HEADERS, END_HEADERS, stream, block) + frame(DATA, END_STREAM, stream, body))

    def reset(self, stream: int) -> None:
        self._sock.sendall(frame(RST_STREAM, 0, stream, struct.pack(">I", CANCEL)))

    def read_until(self, stream: int, mark: bytes) -> bytes:
        """The body of a stream up to these bytes."""
        while mark not in self._got.get(stream, b""):
            head = self._reader.read(9)
            kind, _, number = struct.unpack(">3xBBI", head)
            payload = self._reader.read(int.from_bytes(head[:3], "big"))
            if kind == DATA:
                self._got[number] = self._got.get(number, b"") + payload
            assert kind != RST_STREAM or number != stream, "the server has given it up"
        return self._got[stream]


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return len(payload).to_bytes(3, "big") + struct.pack(">BBI", kind, flags, stream) + payload


def text(value: str) -> bytes:
    """A name or value of a header, of at most 126 bytes, without Huffman coding."""
    assert len(value) < 127
    return bytes([len(value)]) + value.encode()
