"""Rows as tools/bench makes them, with only the figures that a test is about."""

import json
from pathlib import Path
from typing import Any

from tools.bench import promises, together
from tools.bench.workloads import WORKLOADS


def row(workload: str, target: str, *, number: int = 0, repeat: int = 0, check: str = "ok", rps: float = 0.0,
        cpu_ns: int = 0, requests: int = 0, events: int = 0, ended: int = 0, left: Any = (), cancels: Any = (),
        **medians: float) -> dict[str, Any]:
    """`latency`, `first_event` and `event_delay` give the medians of those, in microseconds; p99 is twice as much."""
    client = {f"{name}_us": {"p50": medians[name], "p99": 2 * medians[name]} if name in medians else None
              for name in ("latency", "first_event", "event_delay")}
    return {"round": number, "repeat": repeat, "workload": workload, "target": target, "check": check, "cpu_ns": cpu_ns,
            "client": {"rps": rps, "requests": requests, "events": events, "ended": ended, "left": list(left),
                       **client},
            "engine": {"cancels": list(cancels)}}


def latencies(number: int = 0, **by_target: float) -> list[dict[str, Any]]:
    """Rows of the workload `one` that hold nothing but a latency."""
    return [row("one", target, number=number, latency=latency) for target, latency in by_target.items()]


def bench_run(*, date: str = "2026-01-02 03:04", rounds: int = 5, seconds: float = 1025.0, sources: str = "abc",
              without: Any = (), **workloads: dict[str, float]) -> dict[str, Any]:
    """The content of a latest.json: every workload has a row of every target but those `without`, with nothing in it,
    or with the latencies that are given for it by target."""
    rows = [row(workload.name, target, **({"latency": told[target]} if target in told else {}))
            for workload in WORKLOADS for target in sorted(together.TARGETS) if target not in without
            for told in (workloads.get(workload.name, {}),)]
    return {"layout": "engine and client on core 0, the gateway on core 1", "rounds": rounds, "seconds": seconds,
            "targets": promises.judge(rows, {}, {"blazar": 1.0}, {}),
            "raw": {"date": date, "rows": rows, "programs": {"nginx": "1.22.1", "blazar": "(Python 3.11)"},
                    "sources": sources, "missing": dict.fromkeys(without, "it is not here"), "samples": {},
                    "machine": {"cpu": "A CPU", "cores": "2", "memory": "8 GiB", "kernel": "6.1", "system": "Debian",
                                "python": "3.11"}}}


def soak_run(*, requests: int = 1_000_000, streams: int = 10_000, sources: str = "abc", value: float = 0.5,
             invalid: Any = ()) -> dict[str, Any]:
    """The content of a soak.json."""
    return {"value": value, "must": "<= 5", "aim": "<= 1", "sources": sources, "invalid": list(invalid),
            "points": [{"requests": 10_000, "streams": 0}, {"requests": requests, "streams": streams}]}


def written(file: Path, content: dict[str, Any]) -> str:
    """The name of `file`, which holds that from now on."""
    file.write_text(json.dumps(content))
    return str(file)
