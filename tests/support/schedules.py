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
from typing import Any

import gevent
from gevent import socket, ssl
from gevent.hub import RawGreenlet

from blazar.errors import QuotaExceeded, ShuttingDown
from blazar.proxy.wire.listening import KEPT
from tests.support.certificates import certificate
from tests.support.gateway_under_test import ASK
from tests.support.one_loop import CHILD, ROOM, LoopChild, OneLoop, without_delay
from tests.support.scripted_child import STREAM_HEAD, chunked, delta, events, json_answer

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
        self._child = LoopChild(_act)
        self._loop = OneLoop(folder, self._child.address, {
            "keys": [{"name": "ann", "key": "sk", "max_concurrent": AT_ONCE}],
            "tls_cert": str(pair.cert), "tls_key": str(pair.key)})
        self._gateway, self._ledger, self._worker = self._loop.gateway, self._loop.ledger, self._loop.worker
        self._tls_address = self._worker.open(self._gateway.tls())
        self._audit = self._loop.paths.audit_log.open("rb")
        self.lines = 0
        """Of the audit log."""

    def close(self) -> None:
        self._audit.close()
        self._loop.close()
        self._child.stop()

    # -- one schedule ----------------------------------------------------------------------------------

    def play(self, number: int) -> None:
        """Raises AssertionError when it does not come to an end."""
        chance = Random(number)
        self._loop.load()
        self._worker.worker_connections = chance.choice([ROOM] * 19 + [1])
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
        while self._worker.here():
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
        for client in [client for client in self._worker.here() if client.deadline < math.inf]:
            gevent.get_hub().loop.run_callback(client.expire)

    def _visit(self, chance: Random) -> None:
        """One client, from its connection to its end."""
        tls = chance.random() < 0.12
        with contextlib.suppress(OSError, ssl.SSLError):
            sock = without_delay(socket.create_connection(self._tls_address if tls else self._loop.address))
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
        held = {"connections": len(self._worker.here()), "leases": self._ledger.leases(),
                "exchanges": self._ledger.under_way(), "lent": len(self._gateway.pool._lent),
                "reserved": self._ledger.accounts.get("ann").reserved, "slots": AT_ONCE - self._free_slots(),
                "handled": sum(len(listening._handling) for listening in self._worker.listening),
                "dead": sum(one.dead for listening in self._worker.listening for one in listening._resting),
                "resting": max(0, self._resting() - KEPT * len(self._worker.listening)),
                "faults": self._worker.faults + self._child.faults, "not noted once": self._not_noted_once()}
        return {name: value for name, value in held.items() if value}

    def _resting(self) -> int:
        """Greenlets that wait for a next connection."""
        return sum(len(listening._resting) for listening in self._worker.listening)

    def _not_noted_once(self) -> str:
        """Each request that is counted has its line in the audit log, and no other."""
        metrics = self._gateway.metrics
        metrics.catch_up()
        new = self._audit.read().splitlines()
        ids = {json.loads(line)["id"] for line in new}
        self.lines += len(new)
        counted = sum(metrics.generations.values().values())
        if len(ids) == len(new) and self.lines == counted and not metrics.audit_lost.value():
            return ""
        return f"{counted} were counted, {self.lines} written, {len(new) - len(ids)} of the last twice"

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
        """Descriptors and greenlets, once idle connections to the child are closed; without those that rest."""
        self._gateway.pool.sweep(set())
        gevent.sleep(0.02)  # the child sees their ends
        gc.collect()
        return len(os.listdir("/proc/self/fd")), greenlets() - self._resting()


def greenlets() -> int:
    """Those that have begun, or will, and have not ended: gevent's, and such as `Listening` makes."""
    return sum(isinstance(one, RawGreenlet) and not one.dead for one in gc.get_objects())


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
    dialect = chance.choice(list(ASK))
    path, body = ASK[dialect]
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
    asked = {"messages" if dialect != "responses" else "input": [{"role": "user", "content": content}]}
    if dialect == "responses":
        asked["store"] = False  # there is no supervisor, who would keep it
    data = json.dumps({**body, "stream": stream, **asked}).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer sk\r\n"
    if chance.random() < 0.05:
        head += "Connection: close\r\n"
    if chance.random() < 0.2:
        return f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunked(data)
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


def _act(sock: Any, body: bytes) -> bool:
    """Do what the prompt says; whether the connection goes on."""
    *steps, end = json.loads(json.loads(body)["messages"][-1]["content"])
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
