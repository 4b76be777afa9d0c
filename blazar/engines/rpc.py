"""RPC workers (ggml-rpc-server): which are there, their protocol version, and what memory their devices have.

Only three questions of the worker's protocol are asked: hello, how many devices, how much memory each has. Nothing is
allocated, so any worker may be asked, and a hostile one can only lie. A worker serves one client at a time: while an
engine uses it, others get through to it and hear nothing.
"""

import socket
import struct
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

from blazar.errors import RpcWorkersGone
from blazar.hardware.census import Census
from blazar.planner import machine

PATIENCE = 2.0
"""Seconds for a worker to answer everything."""
HELLO, DEVICE_COUNT, DEVICE_MEMORY = 14, 15, 11
CAPABILITIES = bytes(24)
"""What our side of a connection can do besides: nothing."""
MOST_DEVICES = 64
LONGEST_ANSWER = 64
ASKED_AT_ONCE = 16


@dataclass(frozen=True)
class Worker:
    """One worker as it answered."""

    address: str
    """host:port."""
    state: str
    """`ready`, `busy` (it serves somebody else), or `gone`."""
    version: str | None = None
    """Of its protocol."""
    devices: tuple[tuple[int, int], ...] = ()
    """Free and total bytes of each."""
    problem: str = ""

    def to_dict(self) -> dict[str, Any]:
        plain = asdict(self)
        return {**plain, "devices": [{"free": free, "total": total} for free, total in self.devices]}


def split_addresses(text: str) -> list[str]:
    """The addresses in a setting such as rpc_servers, each once."""
    return list(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))


def configured(config: Any) -> list[str]:
    """Every worker that a configuration names, for all models and for single ones."""
    lists = [config.rpc_servers, *(entry.get("rpc_servers") for entry in config.model_overrides.values())]
    return split_addresses(",".join(text for text in lists if text))


def workers_at(addresses: Iterable[str], patience: float = PATIENCE) -> list[Worker]:
    """Each worker as it answers now, asked at the same time. Never raises."""
    places = list(addresses)
    if not places:
        return []
    with ThreadPoolExecutor(min(len(places), ASKED_AT_ONCE)) as pool:
        return list(pool.map(lambda place: ask(place, patience), places))


def refuse_gone(model: str, addresses: Iterable[str]) -> list[Worker]:
    """The workers, of which all are there; else raises RpcWorkersGone."""
    workers = workers_at(addresses)
    gone = [f"{worker.address} ({worker.problem})" for worker in workers if worker.state == "gone"]
    if gone:
        raise RpcWorkersGone(model=model, workers=", ".join(gone))
    return workers


def machine_with(census: Census, workers: Iterable[Worker], cards: bool = True, now: bool = False) -> machine.Machine:
    """The machine of `census` and the devices of the workers that tell their memory; the others are told apart."""
    return machine.machine_of(census, cards=cards, now=now, **told(workers))


def told(workers: Iterable[Worker]) -> dict[str, Any]:
    """What the planner takes of workers: `workers`, the devices of those that tell their memory, and the others."""
    workers = list(workers)
    devices = [machine.Worker(worker.address if len(worker.devices) == 1 else f"{worker.address} device {number}",
                              total, free)
               for worker in workers for number, (free, total) in enumerate(worker.devices)]
    return {"workers": devices, "silent": [worker.address for worker in workers if worker.state == "busy"],
            "gone": [(worker.address, worker.problem) for worker in workers if worker.state == "gone"]}


def ask(address: str, patience: float = PATIENCE) -> Worker:
    """One worker. `patience` is in seconds."""
    host, _, port = address.rpartition(":")
    try:
        try:
            return _ask(address, (host, int(port)), patience, CAPABILITIES)
        except EOFError:  # protocols before 4 know no capabilities, and hang up
            return _ask(address, (host, int(port)), patience, b"")
    except EOFError:
        return Worker(address, "gone", problem="what listens there is no RPC worker")
    except (OSError, ValueError, OverflowError) as error:
        return Worker(address, "gone", problem=getattr(error, "strerror", None) or str(error))


def _ask(address: str, place: tuple[str, int], patience: float, capabilities: bytes) -> Worker:
    with socket.create_connection(place, patience) as sock:
        try:
            hello = _call(sock, HELLO, capabilities)
            version = ".".join(str(part) for part in hello[:3])
            count = int.from_bytes(_call(sock, DEVICE_COUNT)[:4], "little")
            devices = []
            for number in range(min(count, MOST_DEVICES)):
                answer = _call(sock, DEVICE_MEMORY, struct.pack("<I", number))
                devices.append(struct.unpack("<QQ", answer[:16]))
        except TimeoutError:
            return Worker(address, "busy", problem="it accepts, and answers nothing: it serves another client")
        except struct.error as error:
            raise EOFError from error
    return Worker(address, "ready", version, tuple((free, total) for free, total in devices))


def _call(sock: socket.socket, command: int, request: bytes = b"") -> bytes:
    """One question and its answer. Raises EOFError for anything that is not the protocol."""
    try:
        sock.sendall(struct.pack("<BQ", command, len(request)) + request)
        size = struct.unpack("<Q", _exactly(sock, 8))[0]
        if size > LONGEST_ANSWER:
            raise EOFError
        return _exactly(sock, size)
    except ConnectionError as error:
        raise EOFError from error


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = sock.recv(size - len(data))
        if not more:
            raise EOFError
        data += more
    return data
