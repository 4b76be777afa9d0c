"""What an engine really holds of memory (its PSS) once it has read a text, beside the total of the plan."""

import contextlib
import http.client
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from blazar.hardware.census import census
from blazar.planner.compute import compute_bytes
from blazar.planner.demand import Demand
from blazar.planner.kv import Grade, Window
from blazar.planner.machine import machine_of
from blazar.planner.plan import Plan
from blazar.planner.planner import plan
from blazar.store.shape import read_shape
from blazar.transport import connection_to
from tests.support.built_engines import cache
from tests.support.real_engine import VENV
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
MIB = 1 << 20
READ = 530
"""Tokens of the text: more than one pass."""
ENDLESS = replace(machine_of(census(), cards=False), ram=None, main=None, free=None)
"""No cards, and nobody knows how much main memory: nothing is refused or given up."""


@dataclass(frozen=True)
class Resident:
    """One engine with one model; all sizes in MiB."""

    engine: str
    model: str
    ctx: int
    grade: Grade
    planned: float
    held: float

    @property
    def is_off(self) -> bool:
        """By more than 10 % and more than 24 MiB."""
        return abs(self.planned - self.held) > max(0.1 * self.held, 24.0)

    def __str__(self) -> str:
        return (f"{self.model:14} {self.ctx:6} {self.grade!s:6} {self.engine:10} {self.planned:9.2f} {self.held:9.2f} "
                f" {'off' if self.is_off else 'ok'}")


def engines() -> dict[str, list[str]]:
    """The engines that are here, each with its command."""
    found = {}
    if (cache() / "bin" / "llama-server").exists():
        found["b11434"] = [str(cache() / "bin" / "llama-server")]
    if importlib.util.find_spec("xllamacpp") is not None:
        found["embedded"] = [sys.executable, "-m", "blazar.engines.embedded"]
    elif (VENV / "blazar-llama-server").exists():
        found["embedded"] = [str(VENV / "blazar-llama-server")]
    return found


def resident(engine: str, model: str, file: Path, ctx: int, grade: Grade) -> Resident:
    """The model loaded, and READ tokens of text in it."""
    shape = read_shape([file])
    found = plan(shape, Demand(ctx=ctx, slots=1, keys=grade.keys, values=grade.values), ENDLESS)
    assert isinstance(found, Plan)
    window = Window(found.ctx)
    # Of what it computes in, an engine has touched what the text needed so far; all else is there from the start.
    untouched = compute_bytes(shape, window) - compute_bytes(shape, replace(window, ctx=min(READ, ctx)))
    words = ["--model", str(file), "--ctx-size", str(found.ctx), "--parallel", "1", "--cache-type-k", grade.keys,
             "--cache-type-v", grade.values, "--kv-unified", "--threads", "1"]
    with _running([*engines()[engine], *words]) as (process, address):
        _complete(address, {"prompt": [5 + number % 250 for number in range(min(READ, ctx - 8))], "n_predict": 4})
        held = pss(process.pid)
    return Resident(engine, model, ctx, grade, (found.resident - untouched) / MIB, held / MIB)


def pss(pid: int) -> int:
    """Bytes: pages that several processes map count in part."""
    told = re.search(r"^Pss: +(\d+) kB", Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
    assert told
    return int(told[1]) * 1024


@contextlib.contextmanager
def _running(argv: list[str]) -> Iterator[tuple["subprocess.Popen[bytes]", str]]:
    """An engine that listens on a socket of its own, and that socket's path, once it answers."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
        address = f"{folder}/engine.sock"
        process = subprocess.Popen([*argv, "--host", address], stdout=output, stderr=output, cwd=ROOT)

        def is_ready() -> bool:
            assert process.poll() is None, os.pread(output.fileno(), 1 << 20, 0).decode(errors="replace")[-2000:]
            with contextlib.suppress(OSError, http.client.HTTPException):
                return _asked(address, "GET", "/health")
            return False
        try:
            until(is_ready, 60)
            yield process, address
        finally:
            with contextlib.suppress(OSError):
                process.send_signal(signal.SIGKILL)
            process.wait()


def _complete(address: str, request: dict[str, object]) -> None:
    assert _asked(address, "POST", "/completion", json.dumps(request))


def _asked(address: str, method: str, path: str, body: str | None = None) -> bool:
    """Whether the engine answers with 200."""
    connection = connection_to(address, 120)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        return answer.status == 200
    finally:
        connection.close()
