"""The ways in: every one leads to the same application, in front of the same scripted child."""

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.certificates import certificate
from tests.support.fake_supervisor import FakeSupervisor
from tests.support.gateway_under_test import Answer, GatewayUnderTest
from tests.support.scripted_child import chunked

ODD = "X_Odd"
CHUNKED = "Transfer-Encoding"


class StockSupervisor(FakeSupervisor):
    """Its gateway is `gunicorn -k gevent blazar.wsgi`; `folder` has to be called `blazar`."""

    def command(self, fd: int) -> list[str]:
        return ["gunicorn", "-c", "/dev/null", "-k", "gevent", "-b", self.bound(fd), "blazar.wsgi"]

    def bound(self, fd: int) -> str:
        return f"fd://{fd}"

    def environment(self) -> dict[str, str]:
        return {"XDG_DATA_HOME": str(self.folder.parent), "GUNICORN_CMD_ARGS": ""}


class UnixSupervisor(StockSupervisor):
    """The same, bound to a unix socket."""

    def bound(self, fd: int) -> str:
        return f"unix:{self.folder / 'front'}"


class Stock(GatewayUnderTest):
    supervised = StockSupervisor


class Unix(GatewayUnderTest):
    supervised = UnixSupervisor

    def connect_bare(self) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(10)
        sock.connect(str(self.supervisor.folder / "front"))
        return sock


class Odd(GatewayUnderTest):
    """Our own worker, whose clients send a field that an environ confuses: gunicorn's parser reads such heads."""

    def request(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        return super().request(method, path, body, {ODD: "1", **(headers or {})})

    def written(self, path: str, body: bytes, *lines: str) -> bytes:
        return super().written(path, body, f"{ODD}: 1", *lines)


class Chunked(GatewayUnderTest):
    """The same, of clients whose bodies are chunked."""

    def request(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Answer:
        if body is None:
            return super().request(method, path, None, headers)
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        half = len(data) // 2
        return super().request(method, path, chunked(data[:half], data[half:]), {CHUNKED: "chunked", **(headers or {})})

    def written(self, path: str, body: bytes, *lines: str) -> bytes:
        head = "\r\n".join([f"POST {path} HTTP/1.1", "Host: localhost", f"{CHUNKED}: chunked", *lines, "", ""])
        return head.encode() + chunked(body)


def plain(folder: Path, **options: Any) -> GatewayUnderTest:
    return GatewayUnderTest(folder, **options)


def with_tls(folder: Path, **options: Any) -> GatewayUnderTest:
    return GatewayUnderTest(folder, certificate=certificate(folder), **options)


FRONTS: dict[str, Callable[..., GatewayUnderTest]] = {
    "tcp": plain, "tcp with an odd head": Odd, "tcp with a chunked body": Chunked, "tls": with_tls, "stock": Stock,
    "unix": Unix}
"""By name; each is called with a folder that is there, and with what GatewayUnderTest takes."""


def open_front(name: str, folder: Path, **options: Any) -> GatewayUnderTest:
    """To be entered. Its data dir is made in `folder`."""
    data = folder / "blazar"
    data.mkdir()
    return FRONTS[name](data, **options)


def audit(front: GatewayUnderTest) -> list[dict[str, Any]]:
    """The lines of its audit log."""
    file = front.supervisor.paths.audit_log
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
