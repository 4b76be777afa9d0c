"""What the soak does to Blazar's processes, each from outside, and when it did it."""

import ctypes
import os
import random
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from tests.support.daemon import Daemon
from tests.support.waiting import until

PIDFD_GETFD = 438
"""The number of that system call, which is the same on every machine."""
GATEWAY = ("worker killed", "gunicorn killed")
"""What may cost a client its connection."""
EACH_CHILD, EACH_CUT, EACH_GATEWAY = 3.0, 10.0, 12.0
"""Mean seconds between two faults of a kind."""
COMES_BACK = 20.0
"""Seconds in which a new worker must be there."""


@dataclass
class Fault:
    """`began` and `ended` are CLOCK_MONOTONIC; of the gateway it ends when a new worker has greeted."""

    kind: str
    began: float
    ended: float


class Faults:
    """Makes faults at random between `start` and `stop`; `done` lists them, `wrong` what could not be undone."""

    def __init__(self, daemon: Daemon, seed: int) -> None:
        self.done: list[Fault] = []
        self.wrong: list[str] = []
        self._daemon = daemon
        self._chance = random.Random(f"{seed}/faults")
        self._over = threading.Event()
        self._threads: list[threading.Thread] = []

    def start(self, pace: float, gateway: bool) -> None:
        """Begin, with so much of the usual time between two; without `gateway` its processes are left alone."""
        self._over.clear()
        kinds: list[tuple[float, list[Callable[[], str]]]] = [
            (EACH_CHILD, [self._kill_child, self._end_child, self._freeze_child, self._freeze_and_kill_child]),
            (EACH_CUT, [self._cut_control])]
        if gateway:
            kinds.append((EACH_GATEWAY, [self._kill_worker, self._kill_master]))
        self._threads = [threading.Thread(target=self._make, args=(each * pace, what)) for each, what in kinds]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Make no more; wait until the last one is over."""
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _make(self, each: float, kinds: list[Callable[[], str]]) -> None:
        while not self._over.wait(self._chance.uniform(0.3, 1.7) * each):
            began = time.monotonic()
            try:
                kind = self._chance.choice(kinds)()
            except Exception as error:
                self.wrong.append(f"a fault could not be made or undone: {error!r}")
                return
            if kind:
                self.done.append(Fault(kind, began, time.monotonic()))

    # -- children ------------------------------------------------------------------------------------------

    def _child(self, number: int) -> int:
        """Send a signal to one of the children, whatever its state; its pid, 0 when there is none."""
        pids = [child["pid"] for child in self._daemon.status()["children"] if child["pid"]]
        pid = self._chance.choice(pids) if pids else 0
        with suppress(ProcessLookupError):
            if pid:
                os.kill(pid, number)
        return pid

    def _kill_child(self) -> str:
        return "child killed" if self._child(signal.SIGKILL) else ""

    def _end_child(self) -> str:
        return "child told to end" if self._child(signal.SIGTERM) else ""

    def _freeze_child(self) -> str:
        return "child frozen for a while" if self._freeze(signal.SIGCONT) else ""

    def _freeze_and_kill_child(self) -> str:
        return "child frozen, then killed" if self._freeze(signal.SIGKILL) else ""

    def _freeze(self, then: int) -> bool:
        pid = self._child(signal.SIGSTOP)
        if pid:
            self._over.wait(self._chance.uniform(0.3, 3.0))
            with suppress(ProcessLookupError):
                os.kill(pid, then)
        return bool(pid)

    # -- the gateway ---------------------------------------------------------------------------------------

    def _kill_worker(self) -> str:
        return self._kill_gateway("worker killed", lambda gateway: gateway["workers"][0])

    def _kill_master(self) -> str:
        return self._kill_gateway("gunicorn killed", lambda gateway: gateway["pid"])

    def _kill_gateway(self, kind: str, choose: Callable[[dict[str, Any]], int]) -> str:
        gateway = self._daemon.status()["gateway"]
        if not gateway["workers"]:
            return ""
        os.kill(choose(gateway), signal.SIGKILL)
        until(lambda: not set(gateway["workers"]) & set(workers := self._daemon.status()["gateway"]["workers"])
              and workers, COMES_BACK, "a new worker")
        return kind

    def _cut_control(self) -> str:
        """Shut the worker's end of its control connection."""
        for worker in self._daemon.status()["gateway"]["workers"]:
            with suppress(ProcessLookupError, FileNotFoundError):
                if sum(map(_shut, control_sockets(worker))):
                    return "control connection cut"
        return ""


def control_sockets(pid: int) -> list[socket.socket]:
    """Copies of a process's connections to the control socket. Raises OSError where the system does not allow it."""
    pidfd, found = os.pidfd_open(pid), []
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            with suppress(FileNotFoundError):
                if os.readlink(f"/proc/{pid}/fd/{name}").startswith("socket:"):
                    found.append(_copy(pidfd, int(name)))
    finally:
        os.close(pidfd)
    return [sock for sock in found if sock is not None and _is_control(sock)]


def _copy(pidfd: int, number: int) -> socket.socket | None:
    """A copy of that descriptor; None when it was closed meanwhile."""
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.syscall(PIDFD_GETFD, pidfd, number, 0)
    if fd >= 0:
        return socket.socket(fileno=fd)
    if ctypes.get_errno() == 9:  # EBADF
        return None
    raise OSError(ctypes.get_errno(), "pidfd_getfd")


def _is_control(sock: socket.socket) -> bool:
    with suppress(OSError):
        if sock.family == socket.AF_UNIX and str(sock.getpeername()).endswith("control.sock"):
            return True
    sock.close()
    return False


def _shut(sock: socket.socket) -> int:
    with sock, suppress(OSError):
        sock.shutdown(socket.SHUT_RDWR)
        return 1
    return 0
