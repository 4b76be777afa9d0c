"""Clients and children that arrive, stall and close at random around the whole gateway, in one event loop.

What a schedule does is all in its number, so one that leaves something behind can be tried again alone.
"""

import base64
import contextlib
import gc
import json
import math
import os
import struct
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import gevent
from gevent import socket, ssl
from gevent.server import StreamServer
from gunicorn.config import Config as GunicornConfig

from blazar.config.config import Config
from blazar.errors import QuotaExceeded, ShuttingDown
from blazar.paths import Paths
from blazar.proxy.app import Application
from blazar.proxy.directory import Directory
from blazar.proxy.gateway import Gateway
from blazar.proxy.ledger import Ledger
from blazar.proxy.supervisor import Supervisor
from blazar.proxy.wire.conversation import Conversation, Door
from blazar.proxy.wire.turns import Turns
from tests.support.certificates import certificate
from tests.support.fake_supervisor import MODEL as ROW
from tests.support.fake_supervisor import endpoint
from tests.support.gateway_under_test import ASK
from tests.support.scripted_child import STREAM_HEAD, chunked, delta, events, json_answer

MODEL = "solo:q4_0"
CHILD = f"{MODEL}#1"
AT_ONCE = 4
"""What its API key may do at the same time."""
ENOUGH = 5.0
"""Seconds after which a schedule that has not ended hangs."""
STREAM = STREAM_HEAD + chunked(*events([delta("", role="assistant"), delta("one"), delta(" two"),
                                        delta(finish="stop")]))
LONG = chunked(*events([delta("x" * 40_000) for _ in range(40)], done=False), last=False)
"""What `long` in a prompt stands for: more than sockets hold."""
WHOLE = json_answer(b'{"choices":[{"message":{"content":"one two"}}]}')


class Course:
    """A gateway, its child and its doors. `play(number)` runs one schedule; `left()` says what is still held."""

    def __init__(self, folder: Path) -> None:
        pair = certificate(folder)
        self._trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._trusting.load_verify_locations(pair.cert)
        config = Config.from_dict({"keys": [{"name": "ann", "key": "sk", "max_concurrent": AT_ONCE}],
                                   "audit_log": False, "tls_cert": str(pair.cert), "tls_key": str(pair.key)})
        self._child = StreamServer(("127.0.0.1", 0), _child)
        self._child.start()
        self._endpoint = endpoint(MODEL, ("127.0.0.1", self._child.server_port))
        directory, self._ledger = Directory(), Ledger()
        paths = Paths(folder)
        supervisor = Supervisor(paths.control_socket, directory, self._ledger)
        self._gateway = Gateway(config, paths, directory, self._ledger, supervisor)
        self._clients: set[Any] = set()
        self._turns = Turns(gevent.get_hub().loop)
        self._worker = SimpleNamespace(cfg=GunicornConfig(), wsgi=Application(self._gateway),
                                       app=SimpleNamespace(gateway=self._gateway), parting=False)
        self._plain, self._tls = self._open(None), self._open(self._gateway.tls())

    def _open(self, tls: Any) -> StreamServer:
        listener = socket.socket()
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        door = Door(self._worker.cfg, listener, self._turns, tls)
        server = StreamServer(listener, lambda sock, address: self._converse(door, sock, address))
        server.start()
        return server

    def _converse(self, door: Door, sock: Any, address: Any) -> None:
        client = door.client(sock)
        self._clients.add(client)
        try:
            Conversation(self._worker, door, client, address).run()
        except OSError:
            pass
        finally:
            self._clients.discard(client)
            client.close()
            sock.close()

    def close(self) -> None:
        for server in (self._plain, self._tls, self._child):
            server.stop()

    # -- one schedule ----------------------------------------------------------------------------------

    def play(self, number: int) -> None:
        """Raises AssertionError when it does not come to an end."""
        chance = Random(number)
        self._gateway.directory.replace({"models": {MODEL: {"name": MODEL, **ROW}},
                                         "children": {MODEL: self._endpoint.to_dict()}})
        with gevent.Timeout(ENOUGH) as timeout:
            try:
                self._play(number, chance)
            except gevent.Timeout as caught:
                if caught is not timeout:
                    raise
                raise AssertionError(f"schedule {number} hangs: {self.left()}") from None

    def _play(self, number: int, chance: Random) -> None:
        visitors = [gevent.spawn(self._visit, Random(f"{number}/{index}")) for index in
                    range(chance.choice([1, 1, 2, 3, 6]))]
        if chance.random() < 0.2:
            gevent.sleep(chance.choice([0, 0.0005, 0.002]))
            self._disturb(chance)
        gevent.joinall(visitors, raise_error=True)
        while self._clients:
            gevent.sleep(0.0005)
            if chance.random() < 0.01:  # those whose client stays away get what the sweep would do in time
                self._expire()

    def _disturb(self, chance: Random) -> None:
        act = chance.choice(["expire", "end", "late"])
        if act == "expire":
            self._expire()
        elif act == "end":
            for exchange in list(self._ledger._exchanges.values()):
                exchange.end(ShuttingDown())
        else:
            for connection in self._gateway.pool._lent:
                connection.deadline = -math.inf
            self._gateway.pool.sweep({CHILD})

    def _expire(self) -> None:
        for client in [client for client in self._clients if client.deadline < math.inf]:
            gevent.get_hub().loop.run_callback(client.expire)

    def _visit(self, chance: Random) -> None:
        """One client, from its connection to its end."""
        tls = chance.random() < 0.12
        port = (self._tls if tls else self._plain).server_port
        with contextlib.suppress(OSError, ssl.SSLError):
            sock = socket.create_connection(("127.0.0.1", port))
            try:
                if tls:
                    sock = self._trusting.wrap_socket(sock, server_hostname="localhost")
                self._talk(sock, chance)
            finally:
                sock.close()

    def _talk(self, sock: Any, chance: Random) -> None:
        sock.settimeout(chance.choice([0.002, 0.005, 0.02]))
        for _ in range(chance.choice([1, 1, 2, 3])):
            data = b"".join(_request(chance) for _ in range(chance.choice([1, 1, 1, 2])))
            cut = chance.randrange(len(data))
            sock.sendall(data[:cut])
            act = chance.choice(["go on"] * 6 + ["leave", "reset", "half"])
            if _leaves(sock, act):
                return
            gevent.sleep(chance.choice([0, 0, 0.0003]))
            sock.sendall(data[cut:])
            act = chance.choice(["read"] * 6 + ["a little"] * 2 + ["leave", "reset", "half"])
            if _leaves(sock, act):
                return
            _read(sock, chance.randrange(3000) if act == "a little" else None)

    # -- what is left ----------------------------------------------------------------------------------

    def left(self) -> dict[str, Any]:
        """What nobody may hold once all schedules have ended, where it is not nothing."""
        held = {"connections": len(self._clients), "leases": self._ledger.leases(),
                "exchanges": self._ledger.under_way(), "lent": len(self._gateway.pool._lent),
                "reserved": self._ledger.accounts.get("ann").reserved, "slots": AT_ONCE - self._free_slots()}
        return {name: value for name, value in held.items() if value}

    def _free_slots(self) -> int:
        account, free = self._ledger.accounts.get("ann"), 0
        with contextlib.suppress(QuotaExceeded):
            while free <= AT_ONCE:
                account.enter(0)
                free += 1
        for _ in range(free):
            account.leave(0)
        return free

    def held(self) -> tuple[int, int]:
        """Descriptors and greenlets, once idle connections to the child are closed."""
        self._gateway.pool.sweep(set())
        gevent.sleep(0.02)  # the child sees their ends
        gc.collect()
        return len(os.listdir("/proc/self/fd")), greenlets()


def greenlets() -> int:
    return sum(isinstance(one, gevent.Greenlet) and not one.dead for one in gc.get_objects())


def _leaves(sock: Any, act: str) -> bool:
    if act == "reset":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    elif act == "half":
        sock.shutdown(socket.SHUT_WR)
        _read(sock, None)
    return act in ("leave", "reset", "half")


def _read(sock: Any, most: int | None) -> None:
    """Until nothing has come for a while, the end, or so many bytes."""
    got = 0
    with contextlib.suppress(TimeoutError):
        while (most is None or got < most) and (data := sock.recv(65536)):
            got += len(data)
            if data.endswith((b"0\r\n\r\n", b"}", b"}\n")):
                return


def _request(chance: Random) -> bytes:
    """A question in some dialect and framing, whose prompt is what the child does."""
    path, body = ASK[chance.choice(list(ASK))]
    stream = chance.random() < 0.6
    answer = STREAM if stream or not path.startswith("/v1/chat") else WHOLE
    script: list[Any] = []
    if chance.random() < 0.3:
        script.append(chance.choice([0, 0.0005, 0.003]))
    size = chance.choice([len(answer), len(answer), 100, 30])
    pieces: list[Any] = [answer[at:at + size] for at in range(0, len(answer), size)]
    end = chance.choice(["keep"] * 5 + ["close", "reset", "wait"])
    if answer is STREAM and size == len(answer) and chance.random() < 0.1:
        pieces[:] = [STREAM_HEAD, "long", STREAM[len(STREAM_HEAD):]]
    for piece in pieces if end == "keep" or chance.random() < 0.3 else pieces[:chance.randrange(len(pieces) + 1)]:
        script.append(piece if isinstance(piece, str) else base64.b64encode(piece).decode())
        if size < 1000 and chance.random() < 0.2:
            script.append(0)
    content = json.dumps([*script, end])
    data = json.dumps({**body, "stream": stream, "messages": [{"role": "user", "content": content}]}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk\r\n"
    if chance.random() < 0.05:
        head += "Connection: close\r\n"
    if chance.random() < 0.2:
        return f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunked(data)
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


def _child(sock: Any, _: Any) -> None:
    """Do what the prompts say, request after request."""
    buffer = b""
    with contextlib.suppress(OSError):
        while True:
            while b"\r\n\r\n" not in buffer:
                data = sock.recv(65536)
                if not data:
                    return
                buffer += data
            head, _, buffer = buffer.partition(b"\r\n\r\n")
            length = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
            while len(buffer) < length:
                data = sock.recv(65536)
                if not data:
                    return
                buffer += data
            body, buffer = buffer[:length], buffer[length:]
            if not _act(sock, json.loads(json.loads(body)["messages"][-1]["content"])):
                return


def _act(sock: Any, script: list[Any]) -> bool:
    """Whether the connection goes on."""
    *steps, end = script
    for step in steps:
        if isinstance(step, str):
            sock.sendall(LONG if step == "long" else base64.b64decode(step))
        else:
            gevent.sleep(step)
    if end == "wait":
        sock.recv(1)  # until the gateway has had enough of it
    elif end == "reset":
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    return end == "keep"
