"""Tells systemd what state the daemon is in; without systemd, nobody."""

import contextlib
import os
import socket


def notify(state: str) -> None:
    """Send `READY=1` or `STOPPING=1` to the socket that NOTIFY_SOCKET names, if it names one."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if address[:1] not in ("/", "@"):
        return
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
        sock.connect("\0" + address[1:] if address[0] == "@" else address)
        sock.sendall(state.encode())
