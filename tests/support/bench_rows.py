"""Rows as tools/bench makes them, with only the figures that a test is about."""

from typing import Any


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
