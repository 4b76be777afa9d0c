"""What requests to a loaded model do, watched from inside the process that serves them: `python -m
tests.support.hot_requests FOLDER` prints it as JSON.

The gateway is the real one, with the doors of the worker, in the event loop of the main thread. Its child and its
client have threads of their own, so all that the main thread does is done for the requests.
"""

import json
import re
import sys
import threading
from collections import Counter
from pathlib import Path
from socket import create_connection
from types import SimpleNamespace
from typing import Any

import gevent
from gevent import socket
from gunicorn.config import Config as GunicornConfig

from blazar.config.config import Config
from blazar.paths import Paths
from blazar.proxy.app import Application
from blazar.proxy.directory import Directory
from blazar.proxy.gateway import Gateway
from blazar.proxy.ledger import Ledger
from blazar.proxy.supervisor import Supervisor
from blazar.proxy.wire.conversation import Conversation, Door
from blazar.proxy.wire.listening import Listening
from blazar.proxy.wire.turns import Turns
from tests.support.fake_supervisor import MODEL as ROW
from tests.support.fake_supervisor import endpoint
from tests.support.gateway_under_test import ASK, MODEL, post, read_until
from tests.support.scripted_child import ScriptedChild, chunked, hello_world

EACH = 50
"""Requests of each kind that are watched, once as many have warmed what there is to be warmed."""
KEY = {"name": "ann", "key": "sk-ann", "rpm": 10**6, "tpm": 10**9, "daily_tokens": 10**9, "max_concurrent": 4}
BEARER = "Authorization: Bearer sk-ann"


def kinds() -> dict[str, list[bytes]]:
    """Each dialect, whole and streamed; and what goes through gunicorn's parser. None wants its answer kept."""
    ordinary = [post(path, json.dumps({**body, "stream": stream, "store": False}).encode(), BEARER)
                for path, body in ASK.values() for stream in (False, True)]
    path, body = ASK["openai"]
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\n{BEARER}\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    return {"ordinary": ordinary, "unusual": [post(path, data, BEARER, "X_Odd: 1"), head + chunked(data)]}


class Watched:
    """What the thread that makes this does in the block."""

    def __init__(self) -> None:
        self._on = False
        self.audited: Counter[str] = Counter()
        """Events of `sys.addaudithook`: files, databases, connections, processes."""
        self.modules: set[str] = set()
        """Files whose functions were called."""
        self.builtins: Counter[str] = Counter()
        """Calls of functions that are not written in Python, such as `posix.write` and `lock.acquire`."""
        self._thread = threading.get_ident()
        sys.addaudithook(self._hear)

    def _hear(self, event: str, _: Any) -> None:
        if self._on and threading.get_ident() == self._thread:
            self.audited[event] += 1

    def _see(self, frame: Any, event: str, called: Any) -> None:
        self._on = False  # looking at a frame is told, too
        if event == "call":
            self.modules.add(frame.f_code.co_filename)
        elif event == "c_call":
            module, name = called.__module__, called.__qualname__
            self.builtins[f"{module}.{name}" if module else name] += 1
        self._on = True

    def __enter__(self) -> "Watched":
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        self._on = False
        del self.audited["sys.setprofile"]


class Served:
    """A gateway that no supervisor is connected to: whatever asks one fails."""

    def __init__(self, folder: Path, child: ScriptedChild) -> None:
        self.paths = Paths(folder).ensure()
        directory, ledger = Directory(), Ledger()
        supervisor = Supervisor(self.paths.control_socket, directory, ledger)
        gateway = Gateway(Config.from_dict({"keys": [KEY]}), self.paths, directory, ledger, supervisor)
        directory.replace({"models": {MODEL: {"name": MODEL, **ROW}},
                           "children": {MODEL: endpoint(MODEL, child.address).to_dict()}})
        self._worker = SimpleNamespace(cfg=GunicornConfig(), wsgi=Application(gateway), parting=False,
                                       app=SimpleNamespace(gateway=gateway))
        listener = socket.socket()
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as gunicorn does
        listener.bind(("127.0.0.1", 0))
        listener.listen(8)
        self.address = listener.getsockname()
        self._door = Door(self._worker.cfg, listener, Turns(gevent.get_hub().loop))
        Listening(listener, self._converse, 8).start()
        self.settle = gateway.ledger.finished.catch_up

    def _converse(self, sock: Any, address: Any) -> None:
        client = self._door.client(sock)
        try:
            Conversation(self._worker, self._door, client, address).run()
        finally:
            client.close()
            sock.close()

    def lines(self) -> int:
        """How many its audit log has."""
        return self.paths.audit_log.read_bytes().count(b"\n")


class Asking:
    """A client on a thread, which asks each of `requests` EACH times, all on one connection."""

    def __init__(self, sock: Any, requests: list[bytes]) -> None:
        self._sock = sock
        self._requests = requests
        self._over = gevent.get_hub().loop.async_()
        self.answers = 0
        threading.Thread(target=self._ask, daemon=True).start()

    def wait(self) -> None:
        gevent.get_hub().wait(self._over)

    def _ask(self) -> None:
        try:
            for request in self._requests:
                for _ in range(EACH):
                    self._sock.sendall(request)
                    self._read()
        finally:
            self._over.send()

    def _read(self) -> None:
        head, _, body = read_until(self._sock, b"\r\n\r\n").partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200 "), head + body
        length = re.search(rb"Content-Length: (\d+)", head)
        while not body.endswith(b"0\r\n\r\n") if length is None else len(body) < int(length[1]):
            body += self._sock.recv(65536)
        self.answers += 1


def told(served: Served, child: ScriptedChild, requests: list[bytes]) -> dict[str, Any]:
    """What is done for such requests."""
    watched = Watched()
    with create_connection(served.address, timeout=20) as sock:
        Asking(sock, requests).wait()
        served.settle()
        connections, lines = child.connections, served.lines()
        asking = Asking(sock, requests)
        with watched:
            asking.wait()
            served.settle()
    return {"audited": watched.audited, "modules": sorted(watched.modules), "builtins": watched.builtins,
            "answers": asking.answers, "connections": child.connections - connections,
            "lines": served.lines() - lines}


def main() -> None:
    with ScriptedChild(hello_world) as child:
        served = Served(Path(sys.argv[1]), child)
        print(json.dumps({kind: told(served, child, requests) for kind, requests in kinds().items()}))


if __name__ == "__main__":
    main()
