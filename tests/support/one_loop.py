"""The whole gateway in the event loop of a test: its stages, its doors, and the worker's own way with connections.

Nothing goes on but what the test began: after `settled()` all that could come of it has come.
"""

import traceback
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gevent
from gevent import socket
from gevent.server import StreamServer
from gunicorn.config import Config as GunicornConfig

from blazar.config.config import Config
from blazar.paths import Paths
from blazar.proxy.app import Application
from blazar.proxy.directory import Directory
from blazar.proxy.gateway import Gateway
from blazar.proxy.ledger import Ledger
from blazar.proxy.serve import KEPT_ALIVE
from blazar.proxy.supervisor import Supervisor
from blazar.proxy.wire.client import Client
from blazar.proxy.wire.conversation import Door
from blazar.proxy.wire.listening import Listening
from blazar.proxy.wire.turns import Turns
from blazar.proxy.wire.worker import GatewayWorker
from tests.support.fake_supervisor import MODEL as ROW
from tests.support.fake_supervisor import endpoint

MODEL = "solo:q4_0"
CHILD = f"{MODEL}#1"
ROOM = 1000
"""Connections for which there is room."""
settled = gevent.idle


class Worker(GatewayWorker):
    """Without the process that gunicorn has around it. What it would log of a connection that failed is a fault."""

    def __init__(self, gateway: Gateway) -> None:
        self.cfg = GunicornConfig()
        self.cfg.set("keepalive", KEPT_ALIVE)
        self.wsgi = Application(gateway)
        self.app = SimpleNamespace(gateway=gateway)
        self.worker_connections = ROOM
        self.faults: list[str] = []
        self.log = SimpleNamespace(exception=lambda words: self.faults.append(f"{words}: {traceback.format_exc()}"))
        self.parting = False
        self.listening: list[Listening] = []
        self._clients: set[Client] = set()
        self._refused: set[Client] = set()
        self._turns = Turns(gevent.get_hub().loop)

    def open(self, tls: Any = None) -> tuple[str, int]:
        """Open one more door; where it is."""
        listener = bound()
        address = listener.getsockname()
        self.listening.append(self._listen(listener, Door(self.cfg, listener, self._turns, tls)))
        return address

    def here(self) -> list[Client]:
        """The connections that have not ended."""
        return [*self._clients, *self._refused]

    def sweep(self) -> None:
        """What happens each second."""
        gevent.get_hub().loop.run_callback(self._sweep)
        settled()


class OneLoop:
    """A gateway with one model, whose child is at `child`: an address, or the path of a Unix socket."""

    def __init__(self, folder: Path, child: Any, config: dict[str, Any] | None = None) -> None:
        directory, self.ledger = Directory(), Ledger()
        self.paths = Paths(folder).ensure()
        self.gateway = Gateway(Config.from_dict(config or {}), self.paths, directory, self.ledger,
                               Supervisor(self.paths.control_socket, directory, self.ledger))
        self._child = endpoint(MODEL, child)
        self.load()
        self.worker = Worker(self.gateway)
        self.address = self.worker.open()
        gevent.get_hub().handle_error = self._note

    def load(self) -> None:
        """The child serves the model, whatever was thought of it before."""
        self.gateway.directory.replace({"models": {MODEL: {"name": MODEL, **ROW}},
                                        "children": {MODEL: self._child.to_dict()}})

    def connect(self) -> Any:
        return without_delay(socket.create_connection(self.address, timeout=5))

    def _note(self, context: Any, kind: Any, value: Any, trace: Any) -> None:
        """What goes wrong in the event loop itself, or in a greenlet that nobody waits for."""
        if not issubclass(kind, gevent.GreenletExit):
            self.worker.faults.append("".join([f"{context}: ", *traceback.format_exception(kind, value, trace)]))

    def close(self) -> None:
        for listening in self.worker.listening:
            listening.stop(0.0)
        del gevent.get_hub().handle_error
        self.gateway.pool.sweep(set())
        if self.gateway.audit is not None:
            self.gateway.audit.close()


class LoopChild:
    """A child in the same loop. `play` is called with a socket and the body of each request, and says whether the
    connection goes on."""

    def __init__(self, play: Callable[[Any, bytes], bool], path: Path | None = None) -> None:
        """With a `path` it listens at a Unix socket."""
        self.play = play
        self.received: list[bytes] = []
        self.faults: list[str] = []
        """What went wrong in `play`."""
        listener = bound(path)
        self.address = listener.getsockname()
        self._server = StreamServer(listener, self._converse)
        self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def _converse(self, sock: Any, _: Any) -> None:
        try:
            while self._answers(sock):
                pass
        except OSError:
            pass  # the gateway has closed
        except Exception:
            self.faults.append(traceback.format_exc())

    def _answers(self, sock: Any) -> bool:
        data = b""
        while b"\r\n\r\n" not in data:
            if not (more := sock.recv(65536)):
                return False
            data += more
        head, _, body = data.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        while len(body) < length:
            if not (more := sock.recv(65536)):
                return False
            body += more
        assert len(body) == length, "a request before the answer to the last"
        self.received.append(body)
        return self.play(sock, body)


def bound(path: Path | None = None) -> Any:
    """A listener at a port of its own, or at a path."""
    listener = socket.socket(socket.AF_INET if path is None else socket.AF_UNIX)
    listener.bind(("127.0.0.1", 0) if path is None else str(path))
    listener.listen(64)
    return without_delay(listener)


def without_delay(sock: Any) -> Any:
    """What is sent in pieces goes out in these pieces, as gunicorn has it; what a listener accepts does as it does."""
    if sock.family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock
