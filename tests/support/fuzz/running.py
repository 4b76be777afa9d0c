"""A Blazar that inputs are tried on, and what it holds: memory, descriptors, threads, and words in its logs."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

import psutil

from blazar.proxy.wire.head import KEPT_IDLE
from blazar.supervisor.gateway import LAUNCHER
from tests.support.daemon import ROOT, Daemon
from tests.support.fuzz.client import Client
from tests.support.stub_model import EMBEDDING
from tests.support.waiting import until

ENGINE = ROOT / "tests" / "stubs" / "playing_engine.py"
MODEL, EMBEDDER = "solo:q4_0", "embed:f16"
TROUBLE = re.compile(r"Traceback|\bCRITICAL\b|\bERROR\b")
SPARE_DESCRIPTORS = 2
"""Connections to the engine that the worker may happen to hold open."""


@dataclass
class Held:
    """What one process holds."""

    name: str
    pid: int
    memory: int
    """Bytes resident."""
    descriptors: int
    threads: int


class Running:
    """The daemon with its real gateway and the playing engine, one model loaded."""

    def __init__(self, folder: Path) -> None:
        self.daemon = Daemon(folder, tuple(LAUNCHER), engine_path=str(ENGINE), slots=8, idle_timeout_secs=0)
        self.daemon.install(MODEL)
        self.daemon.install(EMBEDDER, architecture=EMBEDDING)
        self.daemon.start()
        self.wake()

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *_: object) -> None:
        self.daemon.__exit__()

    @property
    def port(self) -> int:
        return self.daemon.port

    def wake(self) -> None:
        """Ask something simple; raises AssertionError when it is not answered well."""
        client = Client(self.port, limit=30)
        body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "x"}]}).encode()
        answer = client.ask(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b"
                            % (len(body), body))
        client.close()
        assert answer.status == 200 and b"Hi" in answer.body, answer

    def held(self) -> list[Held]:
        """Of the supervisor, gunicorn and its worker, once idle connections to the engine are closed; one whose spoilt
        answer did not say for how long it is kept is kept longest."""
        supervisor = psutil.Process(self.daemon.process.pid)
        gunicorn = next(child for child in supervisor.children() if "blazar.proxy.serve" in child.cmdline())
        worker = gunicorn.children()[0]
        until(lambda: not _connections(worker), KEPT_IDLE + 15, "the worker's last connections to be closed")
        return [_held("supervisor", supervisor), _held("gunicorn", gunicorn), _held("worker", worker)]

    def trouble(self) -> list[str]:
        """Lines of the logs that tell of a mistake of ours."""
        files = [file for file in self.daemon.paths.data_dir.rglob("*.log*") if file.is_file()]
        lines = [f"{file.name}: {line}" for file in files for line in file.read_text(errors="replace").splitlines()]
        return [line for line in lines if TROUBLE.search(line)]


def _connections(process: psutil.Process) -> list:
    kind = "net_connections" if hasattr(process, "net_connections") else "connections"
    return [one for one in getattr(process, kind)(kind="tcp") if one.status == psutil.CONN_ESTABLISHED]


def _held(name: str, process: psutil.Process) -> Held:
    return Held(name, process.pid, process.memory_info().rss, process.num_fds(), process.num_threads())


def growth(before: list[Held], after: list[Held], allowed: int) -> list[str]:
    """What has grown by more than it may; `allowed` is in bytes of memory."""
    found = []
    for old, new in zip(before, after, strict=True):
        if new.pid != old.pid:
            found.append(f"{new.name} is another process than before: {old.pid} became {new.pid}")
        if new.memory - old.memory > allowed:
            found.append(f"{new.name} has grown from {old.memory >> 20} to {new.memory >> 20} MiB")
        if new.descriptors - old.descriptors > SPARE_DESCRIPTORS:
            found.append(f"{new.name} had {old.descriptors} descriptors and has {new.descriptors}")
        if new.threads - old.threads > SPARE_DESCRIPTORS:
            found.append(f"{new.name} had {old.threads} threads and has {new.threads}")
    return found


