"""`Endpoint`: where a ready child or peer is reached. The relay, the probes and the snapshots all speak of it."""

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Endpoint:
    """One child that is ready to serve.

    `address` is (host, port) for TCP or a path for a Unix socket; `secret` is the credential between gateway and
    child and never leaves this machine; `ctx` is in tokens, per slot; `size` and `size_vram` are bytes;
    `keep_alive` is in seconds, negative for ever; the two times are seconds of CLOCK_MONOTONIC, which every
    process of one machine shares.
    """

    child_id: str
    """Model name and generation, `solo:q4_0#3`: a restarted child is another child."""
    model: str
    address: tuple[str, int] | str
    secret: str | None
    lane: str
    pid: int
    slots: int
    ctx: int
    size: int
    size_vram: int
    keep_alive: float
    ready_at: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, plain: dict[str, Any]) -> "Endpoint":
        address = plain["address"]
        return cls(**{**plain, "address": tuple(address) if isinstance(address, list) else address})
