"""The ways in: every one leads to the same application, in front of the same scripted child."""

import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.certificates import certificate
from tests.support.fake_supervisor import FakeSupervisor
from tests.support.gateway_under_test import GatewayUnderTest


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


def plain(folder: Path, **options: Any) -> GatewayUnderTest:
    return GatewayUnderTest(folder, **options)


def with_tls(folder: Path, **options: Any) -> GatewayUnderTest:
    return GatewayUnderTest(folder, certificate=certificate(folder), **options)


FRONTS: dict[str, Callable[..., GatewayUnderTest]] = {"tcp": plain, "tls": with_tls, "stock": Stock, "unix": Unix}
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
