"""What /proc tells of processes: who is alive, who belongs to us, and who listens where."""

import os
import signal
import socket
import struct
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

MARK = "BLAZAR_CHILD"
"""Environment variable of everything the supervisor starts: `<data dir id>:<name>`; descendants inherit it."""

_LISTEN = "0A"
_ACCEPTS = 1 << 16
"""The flag of a Unix socket that listens."""


@dataclass(frozen=True)
class Listener:
    """A TCP socket that a process listens on."""

    host: str
    port: int
    inode: int


def all_pids() -> Iterator[int]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            yield int(name)


def stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the state on, or [] when there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def is_alive(pid: int) -> bool:
    """Whether the process runs; a zombie has ended, whoever is to reap it, once its last thread has."""
    fields = stat_fields(pid)
    if not fields or fields[0] not in "ZX":
        return bool(fields)
    with suppress(OSError):
        return len(os.listdir(f"/proc/{pid}/task")) > 1
    return False


def start_time(pid: int) -> int:
    """Clock ticks after boot at which the process started; with the pid it names a process for good. 0 = gone."""
    fields = stat_fields(pid)
    return int(fields[19]) if fields else 0


def in_group(group: int) -> list[int]:
    """Living processes of a process group."""
    found = []
    for pid in all_pids():
        fields = stat_fields(pid)
        if fields and int(fields[2]) == group and fields[0] not in "ZX":
            found.append(pid)
    return found


def mark_of(pid: int) -> str:
    """The value of the process's BLAZAR_CHILD variable, or ''."""
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0"):
            if entry.startswith(MARK.encode() + b"="):
                return entry.partition(b"=")[2].decode(errors="replace")
    return ""


def marked(data_dir_id: str) -> list[int]:
    """Living processes that a supervisor of this data dir started, and their descendants."""
    prefix = data_dir_id + ":"
    return [pid for pid in all_pids() if pid != os.getpid() and mark_of(pid).startswith(prefix) and is_alive(pid)]


def marked_as(mark: str) -> list[int]:
    """Living processes with exactly this mark: a child and its descendants, whatever their group."""
    return [pid for pid in all_pids() if mark_of(pid) == mark and is_alive(pid)]


def resident(pid: int) -> int:
    """Bytes of main memory that a process has, 0 for one that is gone; of this process for the pid 0."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid or 'self'}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def command_of(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
    return ""


def listeners() -> list[Listener]:
    """Every listening TCP socket of this network namespace."""
    found = []
    for table, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
        with suppress(OSError):
            for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == _LISTEN:
                    host, port = fields[1].split(":")
                    found.append(Listener(_address(host, family), int(port, 16), int(fields[9])))
    return found


def unix_listeners() -> list[tuple[str, int]]:
    """Path and inode of every listening Unix socket of this network namespace that has a path."""
    found = []
    with suppress(OSError):
        for line in Path("/proc/net/unix").read_text(errors="surrogateescape").splitlines()[1:]:
            fields = line.split(maxsplit=7)
            if len(fields) == 8 and int(fields[3], 16) & _ACCEPTS:
                found.append((fields[7], int(fields[6])))
    return found


def socket_inodes(pids: Iterable[int]) -> set[int]:
    """Inodes of all sockets that these processes hold open."""
    found = set()
    for pid in pids:
        with suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                with suppress(OSError):
                    target = os.readlink(f"/proc/{pid}/fd/{name}")
                    if target.startswith("socket:["):
                        found.add(int(target[8:-1]))
    return found


def owned_listeners(leader: int) -> list[Listener]:
    """TCP sockets on which the process group of `leader` listens."""
    listening = listeners()
    if not listening:
        return []
    for pids in ([leader], in_group(leader)):
        inodes = socket_inodes(pids)
        found = [one for one in listening if one.inode in inodes]
        if found:
            return found
    return []


def owns_socket(leader: int, path: str) -> bool:
    """Whether the process group of `leader` listens on the Unix socket `path`, and nobody else."""
    inodes = {inode for name, inode in unix_listeners() if name == path}
    return bool(inodes) and any(inodes <= socket_inodes(pids) for pids in ([leader], in_group(leader)))


def answers_for(sock: socket.socket, leader: int) -> bool:
    """Whether it is the process group of `leader` that listens at the other end of a connected Unix socket."""
    pid, _, _ = struct.unpack("iII", sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("iII")))
    return pid == leader or pid in in_group(leader)


def holders_of_port(port: int) -> list[int]:
    """Processes that listen on the port, as far as this user may know."""
    wanted = {one.inode for one in listeners() if one.port == port}
    return [pid for pid in all_pids() if wanted & socket_inodes([pid])] if wanted else []


def end(pids: Iterable[int], limit: float = 5.0) -> list[int]:
    """SIGKILL the processes and wait until they are gone; those that remain after `limit` seconds are returned."""
    remaining = list(pids)
    for pid in remaining:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + limit
    while remaining := [pid for pid in remaining if is_alive(pid)]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return remaining


def _address(text: str, family: socket.AddressFamily) -> str:
    """/proc/net/tcp writes addresses as hexadecimal words in the machine's byte order."""
    words = [bytes.fromhex(text[start:start + 8])[::-1] for start in range(0, len(text), 8)]
    return socket.inet_ntop(family, b"".join(words))
