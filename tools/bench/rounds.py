"""Runs of the client: one gives a row. The rounds interleave all targets, so that they share the machine's moods."""

import json
import random
import secrets
import subprocess
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tools.bench import counts, machine, process, programs
from tools.bench.targets import Target
from tools.bench.workloads import Workload

LIMIT = 60.0
"""Seconds the client gives itself; it needs a few."""


NOTHING = {"requests": 0, "finished": 0, "events": 0, "prompt_tokens": 0, "completion_tokens": 0, "cancelled": 0,
           "cancels": []}
"""The counts of an engine that was asked nothing."""


class ClientFailed(Exception):
    """The client ended without a report."""


def command(target: Target, workload: Workload, name: str) -> list[str]:
    keys = [] if target.keys is None else ["--keys", str(target.keys)]
    return [programs.find("taskset"), "-c", str(target.layout.client), str(programs.build_c("load")), "--to", target.to,
            "--set", name, "--model", target.model, *keys, *workload.arguments(target.slow)]


def run(target: Target, workload: Workload) -> dict[str, Any]:
    """One row: what the client saw, what the engine counted, the CPU time in between, and whether all counts agree."""
    name = secrets.token_hex(4)
    counted = target.counts()
    before = machine.cpu_ns(target.pids())
    result = subprocess.run(command(target, workload, name), capture_output=True, text=True, timeout=2 * LIMIT)
    used = machine.cpu_ns(target.pids()) - before
    if result.returncode != 0:
        raise ClientFailed(f"{workload.name} with {target.name}: {result.stderr}")
    client = json.loads(result.stdout)
    engine = dict(NOTHING)

    def look() -> str:
        try:
            engine.update(process.get_json(target.engine, f"/stats/{name}"))
        except process.StartFailed as error:
            return f"{counts.INVALID}: the engine is gone: {error}; the client's first error: {client['first_error']}"
        now = target.counts()
        return counts.verdict(client, engine, None if now is None or counted is None else now.since(counted))

    check = counts.settled(look)
    return {"workload": workload.name, "target": target.name, "check": check, "client": client, "engine": engine,
            "cpu_ns": used}


def interleaved(targets: Sequence[Target], workloads: Iterable[Workload], rounds: int, subjects: Iterable[str],
                tell: Callable[[dict[str, Any]], None], chance: random.Random) -> list[dict[str, Any]]:
    """Every workload with every target that takes part in it, in another order each time."""
    rows = []
    for number in range(rounds):
        for workload in workloads:
            taking_part = [target for target in targets if target.name in workload.others or target.name in subjects]
            for repeat in range(workload.repeats):
                for target in chance.sample(taking_part, len(taking_part)):
                    row = {"round": number, "repeat": repeat, **run(target, workload)}
                    tell(row)
                    rows.append(row)
    return rows
