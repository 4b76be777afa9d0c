"""The gateway as a child: gunicorn with the inherited listener, its restarts, its heartbeat, and its successor.

A gunicorn is replaced by another one beside it, on the same listener. Once a worker of the new one has said hello, the
old one takes no more connections and leaves with its last stream. If none does, the old one stays.
"""

import itertools
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable, Sequence

from blazar.paths import Paths, package_home
from blazar.supervisor.loop import Loop
from blazar.supervisor.spawn import Process, spawn
from blazar.supervisor.workers import Workers

log = logging.getLogger(__name__)

NAME = "gateway"
LAUNCHER = (sys.executable, "-P", "-m", "blazar.proxy.serve")
BEAT_LIMIT = 10.0
"""Seconds without a heartbeat after which a worker counts as hung."""
BOOT_LIMIT = 30.0
"""Seconds without any worker after which gunicorn is started anew."""
CHECK_EVERY = 1.0
FIRST_FAILURES = 3
"""Exits before any worker said hello, after which the daemon gives up."""
LONGEST_PAUSE = 5.0
"""Seconds until a gunicorn that keeps failing is started again."""
STALL = 3.0
"""Seconds between two looks from which on it was us who stood still."""
AFTER_GRACE = 3.0
"""Seconds beyond the grace time that gunicorn has for ending streams with a word."""
LONGEST_STREAM = 3600.0
"""Seconds that streams have in a gunicorn that was replaced, where `server_timeout_secs` does not say."""
MOST_LEAVING = 8
"""Gunicorns that were replaced and still have streams; no further one is replaced before one of them has gone."""


def python_path() -> str:
    """The gateway's PYTHONPATH: the folder of this package, then what we were given."""
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join(dict.fromkeys([str(package_home()), *filter(None, given)]))


def is_worker_of(pid: int, process: Process | None) -> bool:
    """Whether the process `pid` was started by that gunicorn, whose session it then shares."""
    try:
        return process is not None and os.getsid(pid) == process.pid
    except OSError:
        return False


class Gateway:
    """gunicorn gets SIGINT when we die: SIGTERM would drain for 30 s and keep the listener meanwhile. Measured
    under a live stream, on gunicorn 20.1 and 27: the port is free 0.3 s after a kill -9 of the parent."""

    def __init__(self, loop: Loop, paths: Paths, workers: Workers, listener: socket.socket, grace: float,
                 give_up: Callable[[str], None], launcher: Sequence[str] = LAUNCHER) -> None:
        self._loop = loop
        self._paths = paths
        self._workers = workers
        self._listener = listener
        self.grace = grace
        """Seconds that streams have at a stop."""
        self.longest_stream = LONGEST_STREAM
        self._give_up = give_up
        self._launcher = launcher
        self._process: Process | None = None
        self._heir: Process | None = None
        """Is to take the place of the process, and has no worker yet."""
        self._on_heir: Callable[[str], None] = lambda failure: None
        self._leaving: set[Process] = set()
        """They were replaced, and their last streams run."""
        self._failures = 0
        self._served = False
        self._alone_since = self._looked_at = loop.now()
        self._when_gone: Callable[[], None] | None = None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    def start(self) -> None:
        if self._when_gone is not None:
            return
        self._alone_since = self._loop.now()
        try:
            self._process = self._spawn()
        except OSError as error:
            self._failed(f"gunicorn cannot be started: {error}")

    def _spawn(self) -> Process:
        fd = self._listener.fileno()
        taken = {process.name for process in self._all()}
        names = (NAME if number == 1 else f"{NAME}-{number}" for number in itertools.count(1))
        name = next(name for name in names if name not in taken)
        process = spawn(
            [*self._launcher, "--fd", str(fd), "--control", str(self._paths.control_socket),
             "--grace", f"{self.grace:g}"],
            name, self._paths, lambda ended: self._loop.post(self._on_exit, ended),
            {"PYTHONPATH": python_path()}, death="INT", pass_fds=[fd], log_as=NAME)
        log.info("gateway: started gunicorn, pid %d", process.pid)
        return process

    def _all(self) -> list[Process]:
        return [process for process in (self._process, self._heir, *self._leaving) if process is not None]

    def greeted(self, pid: int) -> None:
        """The worker `pid` has said hello."""
        self._served = True
        self._failures = 0
        if self._heir is not None and is_worker_of(pid, self._heir):
            self._promote(self._heir)

    def replace(self, then: Callable[[str], None]) -> None:
        """Put another gunicorn into the place of the one that runs, without a pause. `then` is told when that has
        happened, with an empty text; or why the old one stays."""
        if self._process is None or self._when_gone is not None:
            then("")  # the next one is started soon, or none
            return
        if len(self._leaving) >= MOST_LEAVING:
            then(f"{len(self._leaving)} gateways that were replaced before still have streams; try again when some "
                 "have ended")
            return
        try:
            heir = self._heir = self._spawn()
        except OSError as error:
            then(f"gunicorn cannot be started: {error}")
            return
        self._on_heir = then
        self._loop.later(BOOT_LIMIT, lambda: heir.kill() if self._heir is heir else None)

    def _promote(self, heir: Process) -> None:
        former, self._process, self._heir = self._process, heir, None
        self._alone_since = self._loop.now()
        if former is None:
            self._told_of_heir("")
            return
        self._leaving.add(former)
        log.info("gateway: gunicorn %d takes over from %d, whose last streams go on", heir.pid, former.pid)
        self._loop.later(self.longest_stream + 2 * AFTER_GRACE, former.kill)
        workers = [worker for worker in self._workers.all() if is_worker_of(worker.pid, former)]
        self._workers.relieve(workers, self.longest_stream, lambda: self._relieved(former))

    def _relieved(self, former: Process) -> None:
        former.signal_leader(signal.SIGTERM)
        self._told_of_heir("")

    def _told_of_heir(self, failure: str) -> None:
        then, self._on_heir = self._on_heir, lambda failure: None
        then(failure)

    def watch(self) -> None:
        """Every second: a worker without a heartbeat, or no worker at all, means a fresh gunicorn."""
        self._loop.later(CHECK_EVERY, self.watch)
        now = self._loop.now()
        stalled, self._looked_at = now - self._looked_at > STALL, now
        workers = self._workers.all()
        if stalled or any(is_worker_of(worker.pid, self._process) for worker in workers):
            self._alone_since = now
        if stalled:
            return  # stopped or starved ourselves: the beats of that time are still to be read
        silent = [worker.pid for worker in workers if now - worker.last_beat > BEAT_LIMIT]
        for process in self._all():
            lost = [pid for pid in silent if is_worker_of(pid, process)]
            if lost or (process is self._process and now - self._alone_since > BOOT_LIMIT):
                log.error("gateway: %s; %s", f"no heartbeat of worker {lost[0]}" if lost else "no worker came up",
                          "it is ended" if process in self._leaving else "starting it anew")
                process.kill()

    def stop(self, then: Callable[[], None]) -> None:
        """Let running answers end within the grace time; by force after it."""
        self._when_gone = then
        if not self._all():
            self._gone()
            return
        self._workers.note("stopping", grace=self.grace)
        for process in self._all():
            process.signal_leader(signal.SIGTERM)
        self._loop.later(self.grace + AFTER_GRACE, self.kill)

    def kill(self) -> None:
        for process in self._all():
            process.kill()

    def _on_exit(self, process: Process) -> None:
        said = "\n".join(process.last_lines())
        ended = f"gunicorn ended ({process.exit_code}); its last lines:\n{said}"
        if process in self._leaving:
            self._leaving.discard(process)
            log.info("gateway: gunicorn %d has left", process.pid)
        elif process is self._heir:
            self._heir = None
            self._told_of_heir(ended)
        elif process is self._process:
            self._process, self._heir = self._heir, None
            self._alone_since = self._loop.now()
            if self._process is not None:
                log.error("gateway: %s", ended)
                self._told_of_heir("")
            elif self._when_gone is None:
                self._failed(ended)
        if self._when_gone is not None and not self._all():
            self._gone()

    def _failed(self, reason: str) -> None:
        """Start it again after a while, unless that can come to nothing."""
        self._failures += 1
        log.error("gateway: %s", reason)
        if not self._served and self._failures >= FIRST_FAILURES:
            self._give_up(f"the gateway does not start: {reason}")
        elif not self._paths.control_socket.exists():
            self._give_up(f"{self._paths.control_socket} is gone, so no gateway can reach this daemon; start it again")
        else:
            self._loop.later(min(LONGEST_PAUSE, 0.1 * 2 ** min(self._failures - 1, 10)), self.start)

    def _gone(self) -> None:
        then, self._when_gone = self._when_gone, lambda: None
        if then is not None:
            then()
