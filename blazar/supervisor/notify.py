"""Tells systemd what state the daemon is in, and that it lives; without systemd, nobody."""

import contextlib
import os
import socket
from collections.abc import Mapping


def notify(state: str) -> None:
    """Send `READY=1` or `STOPPING=1` to the socket that NOTIFY_SOCKET names, if it names one."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address[:1] not in ("/", "@"):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        sock.setblocking(False)  # a manager that does not read must not hold up the run loop
        sock.connect("\0" + address[1:] if address[0] == "@" else address)
        sock.sendall(state.encode())


def reloading(now: float) -> str:
    """What is told when the configuration is read again; `now` is CLOCK_MONOTONIC. READY=1 ends it."""
    return f"RELOADING=1\nMONOTONIC_USEC={int(now * 1e6)}"


def stopping(seconds: float) -> str:
    """What is told at the stop: the unit's own limit is made for the default of shutdown_grace_secs."""
    return f"STOPPING=1\nEXTEND_TIMEOUT_USEC={int(seconds * 1e6)}"


def watchdog_pause(env: Mapping[str, str], pid: int) -> float | None:
    """Seconds between two signs of life, a third of what systemd waits for one; None when `pid` owes it none."""
    if env.get("WATCHDOG_PID", str(pid)) != str(pid):
        return None
    try:
        return int(env.get("WATCHDOG_USEC", "")) / 3e6 or None
    except ValueError:
        return None
