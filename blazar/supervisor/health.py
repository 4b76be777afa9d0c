"""Readiness of a child: its own listening socket first, then /health, then /props with the secret.

A 200 from /health proves nothing by itself: whoever took the port first would give it too, and would be sent the
secret. So nothing is sent until /proc shows that the listening socket belongs to the child's process group.
"""

import http.client
import json
import time
from dataclasses import dataclass
from typing import Any

from blazar.errors import LoadFailed, LoadTimeout
from blazar.supervisor import processes
from blazar.supervisor.spawn import Process
from blazar.transport import Address, connection_to
from blazar.units import format_duration

FIRST_PAUSE = 0.01
LONGEST_PAUSE = 0.1
ANSWER_LIMIT = 2.0
"""Seconds one probe may take; a frozen child must not hold the prober for ever."""


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


def wait_ready(target: Target) -> Ready | None:
    """Thread: probe until the child serves. None when it exited; raises LoadTimeout and LoadFailed."""
    deadline = time.monotonic() + target.limit
    pause = FIRST_PAUSE
    while not target.process.exited.wait(pause):
        pause = min(pause * 1.5, LONGEST_PAUSE)
        address = own_address(target)
        if address and _ask(target, address, target.health_path, None)[0] == 200 \
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
    status, props = _ask(target, address, "/props", target.secret)
    if status in (401, 403):
        raise LoadFailed(model=target.model, reason="it does not accept the secret it was started with",
                         output=quote_output(target.process))
    if status == 0:
        return None
    generation = props.get("default_generation_settings") or {}
    return Ready(address, int(props.get("total_slots") or 0), int(generation.get("n_ctx") or 0))


def _ask(target: Target, address: Address, path: str, secret: str | None) -> tuple[int, dict[str, Any]]:
    """Status and JSON body of a GET; status 0 when there was no proper answer."""
    connection = connection_to(address, ANSWER_LIMIT)
    try:
        connection.connect()
        if isinstance(address, str) and not processes.answers_for(connection.sock, target.process.pid):
            return 0, {}  # somebody has bound the path since we looked
        connection.request("GET", path, headers={"Authorization": f"Bearer {secret}"} if secret else {})
        answer = connection.getresponse()
        body = answer.read()
        parsed = json.loads(body) if answer.status == 200 else {}
        return answer.status, parsed if isinstance(parsed, dict) else {}
    except (OSError, http.client.HTTPException):
        return 0, {}
    except ValueError:
        return 200, {}
    finally:
        connection.close()
