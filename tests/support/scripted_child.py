"""A child made of raw sockets: it records what it is sent and plays the bytes and pauses a test wrote down."""

import contextlib
import json
import os
import socket
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

Play = Callable[["Conversation"], None]


@dataclass
class Received:
    """One request as it came: its head, and its body."""

    head: bytes
    body: bytes

    @property
    def fields(self) -> dict[str, str]:
        lines = self.head.decode("latin-1").split("\r\n")[1:]
        return {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}


class Conversation:
    """One connection to the child."""

    def __init__(self, sock: socket.socket, request: Received) -> None:
        self.sock = sock
        self.request = request

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def close(self) -> None:
        # Both: another thread may be blocked in recv, which close alone does not wake.
        with contextlib.suppress(OSError):
            self.sock.shutdown(socket.SHUT_RDWR)
        self.sock.close()

    def client_closes(self, seconds: float = 5.0) -> bool:
        """Whether the gateway closes its side within `seconds`."""
        self.sock.settimeout(seconds)
        try:
            return self.sock.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        finally:
            self.sock.settimeout(None)


def listener(where: int | str) -> socket.socket:
    if isinstance(where, int):
        return socket.create_server(("127.0.0.1", where), backlog=64)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(where)
    server = socket.socket(socket.AF_UNIX)
    server.bind(where)
    server.listen(64)
    return server


class ScriptedChild:
    """Plays `play` for each request; connections stay open for the next one."""

    def __init__(self, play: Play, where: int | str = 0) -> None:
        """`where` is a port, or the path of a Unix socket."""
        self.play = play
        self.received: list[Received] = []
        self.connections = 0
        self._server = listener(where)
        self._open: list[socket.socket] = []
        self.address: tuple[str, int] | str = self._server.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> "ScriptedChild":
        return self

    def __exit__(self, *_: Any) -> None:
        self.stop()

    def stop(self) -> None:
        """Close the listener and every connection, as a killed process would."""
        with contextlib.suppress(OSError):
            self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self.drop()

    def drop(self) -> None:
        """Close every connection."""
        for sock in self._open:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()
        self._open.clear()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._server.accept()
            except OSError:
                return
            if sock.family == socket.AF_INET:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections += 1
            self._open.append(sock)
            threading.Thread(target=self._converse, args=(sock,), daemon=True).start()

    def _converse(self, sock: socket.socket) -> None:
        buffer = b""
        with contextlib.suppress(OSError):
            while True:
                while b"\r\n\r\n" not in buffer:
                    data = sock.recv(65536)
                    if not data:
                        return
                    buffer += data
                head, _, buffer = buffer.partition(b"\r\n\r\n")
                request = Received(head, b"")
                length = int(request.fields.get("content-length", "0"))
                while len(buffer) < length:
                    buffer += sock.recv(65536)
                request.body, buffer = buffer[:length], buffer[length:]
                self.received.append(request)
                self.play(Conversation(sock, request))


def chunked(*pieces: bytes, last: bool = True) -> bytes:
    """`pieces` in chunked coding, one chunk each."""
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + (b"0\r\n\r\n" if last else b"")


STREAM_HEAD = (b"HTTP/1.1 200 OK\r\nServer: llama.cpp\r\nKeep-Alive: timeout=5, max=100\r\n"
               b"Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")


def json_answer(body: bytes, status: str = "200 OK") -> bytes:
    return (b"HTTP/1.1 %b\r\nServer: llama.cpp\r\nContent-Type: application/json; charset=utf-8\r\n"
            b"Content-Length: %d\r\n\r\n%b" % (status.encode(), len(body), body))


def delta(content: str | None = None, finish: str | None = None, **more: Any) -> dict[str, Any]:
    """One chat-completion chunk."""
    inner = {**({} if content is None else {"content": content}), **more}
    return {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
            "choices": [{"index": 0, "delta": inner, "finish_reason": finish}]}


def event(value: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


def events(values: Iterable[dict[str, Any]], done: bool = True) -> list[bytes]:
    return [*map(event, values), *([b"data: [DONE]\n\n"] if done else [])]


def writing(play: Play) -> Play:
    """`play` for what makes a model write; asked about templates and tokens, the child knows neither."""
    def played(conversation: Conversation) -> None:
        if conversation.request.head.split()[1] in (b"/apply-template", b"/tokenize"):
            conversation.send(json_answer(b'{"error":{"code":404,"message":"File Not Found"}}', "404 Not Found"))
        else:
            play(conversation)
    return played


def hello_world(conversation: Conversation) -> None:
    """`Hello world`: streamed when a stream is asked for, else as one JSON answer."""
    if json.loads(conversation.request.body).get("stream"):
        usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
        conversation.send(STREAM_HEAD + chunked(*events(
            [delta("", role="assistant"), delta("Hello"), delta(" world"), delta(finish="stop"), usage])))
    else:
        conversation.send(json_answer(b'{"choices":[{"message":{"content":"Hello world"}}]}'))
