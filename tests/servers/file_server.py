"""A real HTTP/1.1 server of files over loopback, with a switch for each way in which servers and lines go wrong.

    with FileServer() as server:
        file = server.put("/m.gguf", content, cut_every=10_240)     # a File: its switches may be changed at any time
        server.on("/api/models/", lambda seen: Reply(200, b"{}"))   # anything else: a path, or a prefix that ends in /
        ... server.url("/m.gguf") ...
        server.requests                                             # each request, with the bytes really sent for it

Each connection has a thread; switches are read anew for each request.
"""

import contextlib
import email.utils
import functools
import hashlib
import re
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

PIECE = 16 * 1024
"""Bytes of one write, at most."""


@dataclass
class Seen:
    """One request as the server saw it, and what it put on the wire for it."""

    method: str
    target: str
    """The request line's target: path and query, or a whole URL when we are asked as a proxy."""
    headers: Mapping[str, str]
    """Header names in lower case."""
    body: bytes = b""
    status: int = 0
    sent: int = 0
    """Body bytes that the system took for this answer."""

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def query(self) -> str:
        return urlsplit(self.target).query

    @property
    def range(self) -> str | None:
        return self.headers.get("range")


@dataclass
class Reply:
    """What to answer. `announced` is the Content-Length that is told, when it is not the truth."""

    status: int
    body: bytes | memoryview = b""
    headers: dict[str, str] = field(default_factory=dict)
    announced: int | None = None
    chunked: bool = False


Answerer = Callable[[Seen], Reply]


@dataclass
class File:
    """One file that is served, and its faults."""

    content: bytes
    etag: str | None = None
    """The ETag with its quotes; None = made of the content; "" = none is sent."""
    last_modified: str | None = None
    ranges: str = "right"
    """How a Range is answered: see `_RANGES`."""
    token: str | None = None
    """Who sends no `Bearer <token>` gets 401, who sends another one 403."""
    scripted: list[Reply] = field(default_factory=list)
    """Answers given first, in this order, each once: errors, 429 with Retry-After, redirects."""
    status: int | None = None
    """Answer everything with this status."""
    redirect: str | None = None
    """Answer everything with 302 to this URL."""
    cut_every: int | None = None
    """The connection ends after so many body bytes of each answer."""
    cuts: int | None = None
    """How many answers are cut; None = all."""
    reset: bool = False
    """A cut is a reset, not an end."""
    rate: float | None = None
    """Bytes a second of each answer."""
    held: threading.Event | None = None
    """Answers stop in the middle of their body until this is set."""
    fails_at: int | None = None
    """Ranges from this offset on get 500, `fails` times."""
    fails: int = 1
    corrupt: bool = False
    """One byte in the middle is another one."""
    chunked: bool = False
    """Sent without a length."""
    stale: bytes | None = None
    """With `changes_after` and `stale_etag`: the content of the first requests."""
    stale_etag: str | None = None
    changes_after: int = 0
    ignores_if_range: bool = False

    def answer(self, seen: Seen) -> Reply:
        if self.scripted:
            return self.scripted.pop(0)
        if self.status is not None:
            return Reply(self.status, b"no")
        if self.redirect is not None:
            return Reply(302, headers={"Location": self.redirect})
        if self.token is not None and seen.headers.get("authorization") != f"Bearer {self.token}":
            return Reply(403 if "authorization" in seen.headers else 401, b"no")
        content, etag = self.content, self.etag
        if self.stale is not None and self.changes_after > 0:
            self.changes_after -= 1
            content, etag = self.stale, self.stale_etag
        if self.corrupt:
            middle = len(content) // 2
            content = content[:middle] + bytes([content[middle] ^ 1]) + content[middle + 1:]
        return self._whole_or_range(seen, content, self._validators(content, etag))

    def _whole_or_range(self, seen: Seen, content: bytes, headers: dict[str, str]) -> Reply:
        asked = re.fullmatch(r"bytes=([0-9]+)-([0-9]*)", seen.range or "")
        condition = None if self.ignores_if_range else seen.headers.get("if-range")
        if asked and condition is not None and condition not in (headers.get("ETag"), headers.get("Last-Modified")):
            asked = None
        if not asked:
            return Reply(200, memoryview(content), headers, chunked=self.chunked)
        start, end = int(asked[1]), min(int(asked[2] or len(content)), len(content) - 1)
        if self.fails_at is not None and start >= self.fails_at and self.fails > 0:
            self.fails -= 1
            return Reply(500, b"broken")
        return _RANGES[self.ranges](self, memoryview(content), start, end + 1, headers)

    def _validators(self, content: bytes, etag: str | None) -> dict[str, str]:
        etag = _etag(content) if etag is None else etag
        headers = {"ETag": etag} if etag else {}
        if self.last_modified:
            headers["Last-Modified"] = self.last_modified
        headers["Accept-Ranges"] = "none" if self.ranges == "none" else "bytes"
        return headers


@functools.lru_cache(maxsize=16)
def _etag(content: bytes) -> str:
    return f'"{hashlib.sha256(content).hexdigest()[:16]}"'


def _part(content: memoryview, start: int, end: int, headers: dict[str, str], status: int = 206) -> Reply:
    return Reply(status, content[start:end],
                 {**headers, "Content-Range": f"bytes {start}-{end - 1}/{len(content)}"})


def _right(file: File, content: memoryview, start: int, end: int, headers: dict[str, str]) -> Reply:
    if start >= len(content):
        return _refused(file, content, start, end, headers)
    return _part(content, start, end, headers)


def _refused(file: File, content: memoryview, start: int, end: int, headers: dict[str, str]) -> Reply:
    return Reply(416, b"", {**headers, "Content-Range": f"bytes */{len(content)}"})


def _short(file: File, content: memoryview, start: int, end: int, headers: dict[str, str]) -> Reply:
    """Less than was asked for, and told so."""
    return _part(content, start, start + max(1, (end - start) // 2), headers)


def _first_only(file: File, content: memoryview, start: int, end: int, headers: dict[str, str]) -> Reply:
    file.ranges = "whole"
    return _right(file, content, start, end, headers)


_RANGES: dict[str, Callable[[File, memoryview, int, int, dict[str, str]], Reply]] = {
    "right": _right,
    "none": lambda file, content, start, end, headers: Reply(200, content, headers),
    "whole": lambda file, content, start, end, headers: Reply(200, content, headers),
    "whole as 206": lambda file, content, start, end, headers: _part(content, 0, len(content), headers),
    "512 early": lambda file, content, start, end, headers: _part(content, max(0, start - 512), end, headers),
    "512 late": lambda file, content, start, end, headers: _part(content, min(start + 512, end - 1), end, headers),
    "short": _short,
    "206 without a range": lambda file, content, start, end, headers: Reply(206, content[start:end], headers),
    "200 with a range": lambda file, content, start, end, headers: _part(content, start, end, headers, 200),
    "other size": lambda file, content, start, end, headers: Reply(
        206, content[start:end], {**headers, "Content-Range": f"bytes {start}-{end - 1}/{len(content) + 7}"}),
    "refused": _refused,
    "first only": _first_only,
}


class FileServer:
    """The server; use it as a context manager. `host` is the name in its URLs."""

    def __init__(self, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1") -> None:
        self.requests: list[Seen] = []
        self._routes: dict[str, File | Answerer] = {}
        self._lock = threading.Lock()
        self._open: set[socket.socket] = set()
        self._server = _Listener(("127.0.0.1", 0), _Handler)
        self._server.owner = self
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port: int = self._server.server_address[1]
        self.base = f"{'https' if tls else 'http'}://{host}:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> "FileServer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        with self._lock:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()

    def put(self, path: str, content: bytes, **faults: object) -> File:
        """Serve `content` at `path`; `faults` are the other fields of File."""
        file = File(content, **faults)  # type: ignore[arg-type]
        self._routes[path] = file
        return file

    def on(self, path: str, answer: Answerer) -> None:
        """Let `answer` speak for `path`, or for all below a path that ends in /."""
        self._routes[path] = answer

    def url(self, path: str) -> str:
        return self.base + path

    def seen(self, path: str) -> list[Seen]:
        """The requests for `path`, in the order in which they came."""
        return [request for request in self.requests if request.path == path]

    def sent(self, path: str | None = None) -> int:
        """Body bytes put on the wire for `path`, or for all."""
        return sum(request.sent for request in self.requests if path is None or request.path == path)

    def route(self, path: str) -> File | Answerer:
        if path in self._routes:
            return self._routes[path]
        prefixes = [known for known in self._routes if known.endswith("/") and path.startswith(known)]
        return self._routes[max(prefixes, key=len)] if prefixes else lambda seen: Reply(404, b"not here")

    def note(self, seen: Seen) -> None:
        with self._lock:
            self.requests.append(seen)

    @contextlib.contextmanager
    def keeping(self, connection: socket.socket) -> Iterator[None]:
        with self._lock:
            self._open.add(connection)
        try:
            yield
        finally:
            with self._lock:
                self._open.discard(connection)


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64
    owner: FileServer

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that leaves is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Listener

    def handle(self) -> None:
        with self.server.owner.keeping(self.connection):
            super().handle()

    def do_GET(self) -> None:
        owner = self.server.owner
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        seen = Seen(self.command, self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        owner.note(seen)
        route = owner.route(seen.path)
        with contextlib.suppress(OSError):
            self._send(seen, route.answer(seen) if isinstance(route, File) else route(seen),
                       route if isinstance(route, File) else File(b""))

    do_HEAD = do_POST = do_PUT = do_DELETE = do_GET

    def _send(self, seen: Seen, reply: Reply, file: File) -> None:
        seen.status = reply.status
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        length = len(reply.body) if reply.announced is None else reply.announced
        if reply.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.send_header("Content-Length", str(length))
        self.end_headers()
        if seen.method == "HEAD":
            return
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 256 * 1024)
        body, cut = memoryview(reply.body), reply.status in (200, 206) and file.cuts != 0
        whole = len(body)
        if cut and file.cut_every is not None and whole > file.cut_every:
            body = body[:file.cut_every]
            file.cuts = None if file.cuts is None else file.cuts - 1
        for offset in range(0, len(body), PIECE):
            self._piece(seen, body[offset:offset + PIECE], reply.chunked)
            if file.rate:
                time.sleep(min(PIECE, len(body) - offset) / file.rate)
            if file.held is not None and offset >= len(body) // 2 and not file.held.wait(30):
                return
        if len(body) < whole or length != whole:
            self._cut(file.reset)
        elif reply.chunked:
            self.connection.sendall(b"0\r\n\r\n")

    def _piece(self, seen: Seen, piece: memoryview, chunked: bool) -> None:
        self.connection.sendall(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
        seen.sent += len(piece)

    def _cut(self, reset: bool) -> None:
        self.close_connection = True
        if reset:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.connection.close()

    def log_message(self, format: str, *args: object) -> None:
        pass


def http_date(timestamp: float) -> str:
    """A time as HTTP headers have it."""
    return email.utils.formatdate(timestamp, usegmt=True)
