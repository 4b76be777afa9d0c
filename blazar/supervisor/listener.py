"""The daemon's lock and its listening socket: who may run, and who holds the port if we cannot."""

import errno
import fcntl
import os
import socket
import time
from contextlib import suppress

from blazar.errors import AlreadyRunning, BindConflict, BindRefused, BlazarError
from blazar.paths import Paths
from blazar.supervisor import processes

BACKLOG = 2048
UNSEEN_LIMIT = 1.0
"""Seconds to wait for a port that nobody visible holds: the kernel closes a dead process's sockets a little late."""
TAKEOVER_LIMIT = 5.0
"""Seconds that a leftover of our own has for giving up the port."""


def take_lock(paths: Paths) -> int:
    """Lock run/daemon.lock for the life of this process. Raises AlreadyRunning with the holder's pid."""
    descriptor = os.open(paths.daemon_lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pid = os.read(descriptor, 32).decode(errors="replace").strip()
        os.close(descriptor)
        raise AlreadyRunning(pid=pid or "unknown", data_dir=paths.data_dir) from None
    os.ftruncate(descriptor, 0)
    os.write(descriptor, f"{os.getpid()}\n".encode())
    return descriptor


def listen(host: str, port: int, data_dir_id: str) -> socket.socket:
    """Bind and listen. A leftover of this data dir on the port is ended; a stranger raises BindConflict."""
    began = time.monotonic()
    while True:
        try:
            return _bind(host, port)
        except (OSError, UnicodeError) as error:  # UnicodeError: a name that cannot be a host's
            if getattr(error, "errno", None) != errno.EADDRINUSE:
                raise _refused(host, port, error) from error
        holders = processes.holders_of_port(port)
        ours = [pid for pid in holders if processes.mark_of(pid).startswith(data_dir_id + ":")]
        strangers = [pid for pid in holders if pid not in ours and processes.command_of(pid)]  # a dying one has none
        limit = TAKEOVER_LIMIT if holders else UNSEEN_LIMIT
        if strangers or time.monotonic() > began + limit:
            raise BindConflict(host=host, port=port, holder=_name(strangers or holders))
        processes.end(ours, limit=began + limit - time.monotonic())
        time.sleep(0.02)


def url_of(listener: socket.socket, scheme: str = "http") -> str:
    """Where a client on this machine reaches the listener."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def _bind(host: str, port: int) -> socket.socket:
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    # `localhost` is both; clients that write 127.0.0.1 are the more common ones
    family, kind, protocol, _, address = min(found, key=lambda one: one[0] != socket.AF_INET)
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError:
        listener.close()
        raise
    return listener


def _refused(host: str, port: int, error: Exception) -> BlazarError:
    if isinstance(error, PermissionError):
        return BindRefused(host=host, port=port, reason=f"{error.strerror} (ports below 1024 are root's)",
                           remedy="choose another one with `--port` or `port = ...`")
    return BindRefused(host=host, port=port, reason=getattr(error, "strerror", None) or "that cannot be a host name",
                       remedy="choose an address of this machine with `--host` or `host = ...`")


def _name(holders: list[int]) -> str:
    if not holders:
        return "another program holds the port (which one, only its owner or root may see)"
    pid = holders[0]
    with suppress(OSError):
        return f"pid {pid} ({processes.command_of(pid)[:120] or 'unknown'}) holds the port"
    return f"pid {pid} holds the port"
