"""What is measured outside the rounds: memory, and the time that starts take."""

import json
import os
import secrets
import subprocess
import time
from pathlib import Path
from statistics import median

from tools.bench import machine, programs, rounds
from tools.bench.blazar_target import Blazar
from tools.bench.workloads import PACED_1000

STARTS = 3
HELPS = 9
REST = 1.0
"""Seconds after a start until it counts as idle."""


class Taken(dict[str, list[float]]):
    """Samples by `<target> <what>`."""

    def add(self, target: Blazar, what: str, value: float) -> None:
        self.setdefault(f"{target.name} {what}", []).append(value)


def starts(target: Blazar, taken: Taken) -> None:
    for _ in range(STARTS):
        taken.add(target, "start", target.start_seconds())
    taken.add(target, "help", help_ratio(target.python, target.home))
    taken.add(target, "feature cost", feature_cost(target.python, target.home))


def idle(target: Blazar, taken: Taken) -> None:
    """Right after `start`, when no child runs."""
    time.sleep(REST)
    taken.add(target, "all idle", machine.pss_mib(target.pids()))
    taken.add(target, "worker idle", machine.pss_mib([target.worker_pid()]))


def busy(target: Blazar, taken: Taken) -> None:
    """In the midst of 1,000 streams."""
    worker = target.worker_pid()
    command = rounds.command(target, PACED_1000, secrets.token_hex(4))
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as client:
        time.sleep(1.3)
        taken.add(target, "worker with 1,000 streams", machine.pss_mib([worker]))
        client.wait(rounds.LIMIT)


def feature_cost(python: str, home: Path) -> float:
    """Microseconds of CPU that all features together take of a hot request. Raises CalledProcessError."""
    told = subprocess.run([python, "-P", "-m", "tools.bench.cost", "--json"], check=True, stdout=subprocess.PIPE,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join([str(home), str(programs.ROOT)])})
    return json.loads(told.stdout)["total"]


def help_ratio(python: str, home: Path) -> float:
    """How much longer `blazar --help` takes than an interpreter that does nothing."""
    installed = Path(python).with_name("blazar")
    program = installed if installed.exists() else programs.ROOT / "bin" / "blazar"
    commands = ([python, str(program), "--help"], [python, "-I", "-c", "pass"])
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(HELPS):
        for command, spent in zip(commands, times, strict=True):
            began = time.monotonic()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={"PYTHONPATH": str(home)})
            spent.append(time.monotonic() - began)
    return median(times[0]) / median(times[1])
