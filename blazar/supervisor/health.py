"""Readiness of a child: its own listening socket first, then /health, then /props with the secret.

A 200 from /health proves nothing by itself: whoever took the port first would give it too, and would be sent the
secret. So nothing is sent until /proc shows that the listening socket belongs to the child's process group.
"""

import time
from dataclasses import dataclass

from blazar.errors import LoadFailed, LoadTimeout
from blazar.supervisor import processes
from blazar.supervisor.questions import ask
from blazar.supervisor.spawn import Process
from blazar.transport import Address
from blazar.units import format_duration

FIRST_PAUSE = 0.01
LONGEST_PAUSE = 0.1


@dataclass(frozen=True)
class Target:
    """Which child is probed, and how."""

    model: str
    process: Process
    address: Address
    """Where the child was told to listen; port 0 when it chose one itself."""
    secret: str | None
    health_path: str
    limit: float


@dataclass(frozen=True)
class Ready:
    address: Address
    slots: int
    """As the child reports it; 0 when it does not."""
    ctx: int
    restored: int = 0
    """Tokens that it was given back from its former life."""


def wait_ready(target: Target) -> Ready | None:
    """Thread: probe until the child serves. None when it exited; raises LoadTimeout and LoadFailed."""
    deadline = time.monotonic() + target.limit
    pause = FIRST_PAUSE
    while not target.process.exited.wait(pause):
        pause = min(pause * 1.5, LONGEST_PAUSE)
        address = own_address(target)
        if address and ask(target.process.pid, address, target.health_path, None)[0] == 200 \
                and (ready := _measure(target, address)):
            return ready
        if time.monotonic() > deadline:
            raise LoadTimeout(model=target.model, limit=format_duration(target.limit),
                              output=quote_output(target.process))
    return None


def own_address(target: Target) -> Address | None:
    """Where the child itself listens; None while it does not."""
    if isinstance(target.address, str):
        return target.address if processes.owns_socket(target.process.pid, target.address) else None
    host, port = target.address
    for listener in processes.owned_listeners(target.process.pid):
        if port in (0, listener.port) and listener.host in (host, "0.0.0.0", "::"):
            return host, listener.port
    return None


def quote_output(process: Process) -> str:
    """The child's last lines, as the end of an error message."""
    lines = process.last_lines()
    return "; its last lines:\n" + "\n".join(lines) if lines else "; it printed nothing"


def _measure(target: Target, address: Address) -> Ready | None:
    """What a healthy child says of itself; None when it says nothing, so that it cannot be called ready."""
    status, props = ask(target.process.pid, address, "/props", target.secret)
    if status in (401, 403):
        raise LoadFailed(model=target.model, reason="it does not accept the secret it was started with",
                         output=quote_output(target.process))
    if status == 0:
        return None
    props = props if status == 200 and isinstance(props, dict) else {}
    generation = props.get("default_generation_settings") or {}
    return Ready(address, int(props.get("total_slots") or 0), int(generation.get("n_ctx") or 0))
