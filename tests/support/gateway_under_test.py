"""The real gateway between a scripted child and a test, with a stand-in for the supervisor."""

import http.client
import json
import socket
import ssl
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.support.certificates import Certificate
from tests.support.fake_supervisor import FakeSupervisor, endpoint
from tests.support.scripted_child import ScriptedChild, hello_world

MODEL = "solo:q4_0"
MESSAGES = [{"role": "user", "content": "hi"}]

ASK = {
    # dialect: path and body of its plainest question
    "openai": ("/v1/chat/completions", {"model": MODEL, "messages": MESSAGES}),
    "ollama": ("/api/chat", {"model": MODEL, "messages": MESSAGES}),
    "anthropic": ("/v1/messages", {"model": MODEL, "max_tokens": 50, "messages": MESSAGES}),
    "responses": ("/v1/responses", {"model": MODEL, "input": MESSAGES}),
}


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class GatewayUnderTest:
    """`child.play` may be replaced by each test."""

    supervised: type[FakeSupervisor] = FakeSupervisor

    def __init__(self, folder: Path, config: dict[str, Any] | None = None, grace: float = 5.0,
                 loaded: bool = True, installed: tuple[str, ...] = (MODEL,),
                 certificate: Certificate | None = None, child: int | str = 0, transport: str = "tcp",
                 sees: bool = False) -> None:
        """With a certificate it listens with TLS, and what connects here trusts it. `child` says where that listens:
        at a port, or at the path of a Unix socket; with the transport "unix" there is one in the folder. `sees` is
        whether the model has a projector, which is loaded then."""
        self._tls: ssl.SSLContext | None = None
        if certificate is not None:
            config = {**(config or {}), "tls_cert": str(certificate.cert), "tls_key": str(certificate.key)}
            self._tls = ssl.create_default_context(cafile=certificate.cert)
        self.child = ScriptedChild(hello_world, str(folder / "child.sock") if transport == "unix" else child)
        self.supervisor = self.supervised(folder, list(installed), config, grace=grace)
        self.supervisor.loadable[MODEL] = endpoint(MODEL, self.child.address, projector=sees)
        if sees:
            self.supervisor.facts[MODEL] = {"capabilities": ["completion", "vision"]}
        if loaded:
            self.supervisor.loaded[MODEL] = self.supervisor.loadable[MODEL]

    def __enter__(self) -> "GatewayUnderTest":
        self.supervisor.__enter__()
        return self

    def __exit__(self, *_: Any) -> None:
        self.supervisor.__exit__()
        self.child.stop()

    def fresh(self) -> "GatewayUnderTest":
        """For a test that shares the gateway: the plain child again, nothing recorded."""
        self.child.play = hello_world
        self.child.received.clear()
        self.child.drop()
        self.supervisor.heard[:] = [message for message in self.supervisor.heard if message["kind"] == "hello"]
        return self

    def rename_child(self, number: int) -> None:
        """Let the child be another one for the gateway, at a place of whose ways it has learnt nothing yet."""
        self.supervisor.loaded[MODEL] = self.supervisor.loadable[MODEL] = replace(
            self.supervisor.loadable[MODEL], child_id=f"{MODEL} {number}#1")
        self.supervisor.push()
        self.supervisor.link().ask("requests", 10, key=None, finished=0, cancel=None)  # it has heard what came before

    def connect(self) -> socket.socket:
        sock = self.connect_bare()
        return sock if self._tls is None else self._tls.wrap_socket(sock, server_hostname="localhost")

    def connect_bare(self) -> socket.socket:
        """Without TLS, whatever the gateway expects."""
        sock = socket.create_connection(("127.0.0.1", self.supervisor.port), timeout=10)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return sock

    def request(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        """One request on a connection of its own; `body` is bytes, or a value to be sent as JSON."""
        connection = http.client.HTTPConnection("127.0.0.1", self.supervisor.port, timeout=10)
        connection.sock = self.connect()
        try:
            data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, data, headers or {})
            response = connection.getresponse()
            return Answer(response.status, {name.lower(): value for name, value in response.getheaders()},
                          response.read())
        finally:
            connection.close()

    def ask(self, dialect: str, headers: dict[str, str] | None = None, **more: Any) -> Answer:
        """The dialect's plainest question, with more fields; `messages` are those of any dialect."""
        path, body = ASK[dialect]
        if dialect == "responses" and "messages" in more:
            more["input"] = more.pop("messages")
        return self.request("POST", path, {**body, **more}, headers)

    def written(self, path: str, body: bytes, *lines: str) -> bytes:
        """A request to this gateway as raw bytes."""
        return post(path, body, *lines)

    def raw(self, data: bytes) -> bytes:
        """Send these very bytes and read until the gateway closes."""
        with self.connect() as sock:
            sock.sendall(data)
            return read_all(sock)


def read_all(sock: socket.socket) -> bytes:
    parts = []
    while data := sock.recv(65536):
        parts.append(data)
    return b"".join(parts)


def read_until(sock: socket.socket, mark: bytes) -> bytes:
    """What comes up to and including the first bytes that complete `mark`."""
    got = b""
    while mark not in got:
        data = sock.recv(65536)
        assert data, f"closed before {mark!r}: {got!r}"
        got += data
    return got


def post(path: str, body: bytes, *lines: str, version: str = "1.1") -> bytes:
    """A request as raw bytes."""
    head = [f"POST {path} HTTP/{version}", "Host: localhost", f"Content-Length: {len(body)}", *lines]
    return "\r\n".join([*head, "", ""]).encode() + body


def is_error_of(dialect: str, answer: Answer) -> str:
    """The message of an error answer; fails unless its shape and content type are the dialect's."""
    assert answer.headers["content-type"] == "application/json", answer
    value = answer.json()
    if dialect == "ollama":
        assert set(value) == {"error"} and isinstance(value["error"], str), value
        return value["error"]
    if dialect == "anthropic":
        assert value["type"] == "error" and isinstance(value["error"]["type"], str), value
    assert isinstance(value["error"]["message"], str) and isinstance(value["error"]["type"], str), value
    return value["error"]["message"]
