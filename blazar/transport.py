"""`Endpoint`: where a ready child or peer is reached. The relay, the probes and the snapshots all speak of it."""

import http.client
import os
import socket
from dataclasses import asdict, dataclass
from typing import Any, Final

Address = tuple[str, int] | str
"""Host and port for TCP, a path for a Unix socket."""


def place_of(model: str, number: int) -> str:
    """What the child number `number` (from 1) of a model is called: `solo:q4_0`, then `solo:q4_0 2` and so on."""
    return model if number == 1 else f"{model} {number}"


def model_at(place: str) -> str:
    """The model whose child is called so; a model's own name has no space."""
    return place.partition(" ")[0]


ROUTER: Final = "router"
"""The place of the child that serves all models, and the lane of its endpoints; models' own names have a colon."""


@dataclass(frozen=True)
class Endpoint:
    """One child that is ready to serve.

    `address` is (host, port) for TCP or a path for a Unix socket; `secret` is the credential between gateway and
    child and never leaves this machine; `ctx` is in tokens, per slot; `size` and `size_vram` are bytes;
    `keep_alive` is in seconds, negative for ever; the two times are seconds of CLOCK_MONOTONIC, which every
    process of one machine shares.
    """

    child_id: str
    """Place and generation, `solo:q4_0#3` or `solo:q4_0 2#1`: a restarted child is another child."""
    model: str
    address: Address
    secret: str | None
    lane: str
    pid: int
    slots: int
    ctx: int
    size: int
    size_vram: int
    keep_alive: float
    ready_at: float
    projector: bool = False
    """Whether it can be shown something: its projector is loaded."""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "Endpoint":
        address = plain["address"]
        return cls(**{**plain, "address": tuple(address) if isinstance(address, list) else address})


def runs(pid: int) -> bool:
    """Whether a process still has a program; as far as the system tells.

    One that ends gives up its program first, then its sockets, and for some milliseconds more it is there: so whoever
    has seen a child's connection close sees here that it has ended, whether or not anybody has waited for it.
    """
    try:
        os.readlink(f"/proc/{pid}/exe")
    except (FileNotFoundError, ProcessLookupError):
        return False
    except OSError:
        pass  # it is not told
    return True


def connection_to(address: Address, timeout: float) -> http.client.HTTPConnection:
    """For single questions outside of the relay; it connects with the first request. `timeout` is in seconds."""
    if isinstance(address, str):
        return _UnixConnection(address, timeout)
    return http.client.HTTPConnection(*address, timeout=timeout)


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)
