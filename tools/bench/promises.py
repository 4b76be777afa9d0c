"""The table of promises: each figure with what it must reach and what it aims at."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tools.bench import counts, figures, workloads
from tools.bench.figures import Bound, Measure, Round, at_least, at_most
from tools.bench.workloads import Workload

OTHER_END = "blazar-debian"
"""The target that is Blazar with Debian's packages."""
OTHER_END_FACTOR = 2.0
"""How much worse a figure may be there."""

Samples = Mapping[str, list[float]]


@dataclass(frozen=True)
class Promise:
    """`read` takes the subject's name; a promise about `sample` is read from samples taken outside the rounds."""

    name: str
    title: str
    must: Bound
    aim: Bound
    read: Callable[[Round, str], float] | None = None
    sample: str = ""
    needs: str = ""
    """The reference without which there is no such figure."""

    def value(self, rounds: list[Round], samples: Samples, subject: str) -> float:
        """Raises Unmeasured and Unsound."""
        if self.read is None:
            taken = samples.get(f"{subject} {self.sample}")
            if not taken:
                raise figures.Unmeasured(f"no sample of {self.sample} was taken")
            return statistics.median(taken)
        read = self.read
        return figures.over_rounds(rounds, lambda one: read(one, subject))


def _added(workload: Workload, other: str, measure: Measure) -> Callable[[Round, str], float]:
    return lambda one, subject: one.added_ratio(workload.name, subject, other, measure)


def _ratio(workload: Workload, other: str, measure: Measure) -> Callable[[Round, str], float]:
    return lambda one, subject: one.ratio(workload.name, subject, other, measure)


def _own(workload: Workload, measure: Measure, unit: float) -> Callable[[Round, str], float]:
    return lambda one, subject: one.read(workload.name, subject, measure) / unit


def _translated(workload: Workload) -> Callable[[Round, str], float]:
    """CPU per event of a translated stream, against one that is passed through."""
    return lambda one, subject: (one.read(workload.name, subject, figures.cpu_per_event)
                                 / one.read(workloads.OPENAI.name, subject, figures.cpu_per_event))


MS = 1000.0

PROMISES = (
    Promise("added_latency_x_nginx", "added p50, 1 connection, JSON answer, × nginx", at_most(1.8), at_most(1.4),
            _added(workloads.ONE, "nginx", figures.latency), needs="nginx"),
    Promise("added_latency_x_go", "added p50, 1 connection, JSON answer, × Go", at_most(0.9), at_most(0.7),
            _added(workloads.ONE, "go", figures.latency), needs="go"),
    Promise("rate_64_x_nginx", "requests/s at 64 connections, × nginx", at_least(0.25), at_least(0.34),
            _ratio(workloads.MANY, "nginx", figures.rate), needs="nginx"),
    Promise("rate_64_x_go", "requests/s at 64 connections, × Go", at_least(1.5), at_least(2.1),
            _ratio(workloads.MANY, "go", figures.rate), needs="go"),
    Promise("rate_64_x_litellm", "requests/s at 64 connections, × LiteLLM", at_least(80), at_least(150),
            _ratio(workloads.MANY, "litellm", figures.rate), needs="litellm"),
    Promise("added_first_event_x_nginx", "added time to first byte of a stream, × nginx", at_most(1.5), at_most(1.25),
            _added(workloads.FIRST, "nginx", figures.first_event), needs="nginx"),
    Promise("cpu_per_chunk_256_x_nginx", "CPU per relayed chunk, 256 paced streams, × nginx", at_most(1.2), at_most(1),
            _ratio(workloads.PACED_256, "nginx", figures.cpu_per_event), needs="nginx"),
    Promise("token_delay_256_x_nginx", "token delay p50, 256 paced streams, × nginx", at_most(1.4), at_most(1.1),
            _ratio(workloads.PACED_256, "nginx", figures.event_delay), needs="nginx"),
    Promise("token_delay_1000_x_nginx", "token delay p50, 1,000 paced streams, × nginx", at_most(1.5), at_most(1.1),
            _ratio(workloads.PACED_1000, "nginx", figures.event_delay), needs="nginx"),
    # The figures it was set by came from a client that opens them so, one after the other. `burst` has no promise:
    # there they are sent in one instant, and to nginx it takes 4 ms, of which the client and the engine take 3.
    Promise("burst_first_event_ms", "first byte when 256 streams arrive, one every 78 µs, p50, ms", at_most(8),
            at_most(4), _own(workloads.PACED_256, figures.first_event, MS)),
    Promise("cpu_per_event_anthropic_x_relayed", "CPU per event, Anthropic stream, × pass-through", at_most(3),
            at_most(1.5), _translated(workloads.ANTHROPIC)),
    Promise("cpu_per_event_ollama_x_relayed", "CPU per event, Ollama stream, × pass-through", at_most(3), at_most(1.5),
            _translated(workloads.OLLAMA)),
    Promise("body_200k_x_nginx", "200 KB request body, p50, × nginx", at_most(2.5), at_most(1.5),
            _ratio(workloads.BODY, "nginx", figures.latency), needs="nginx"),
    Promise("worker_idle_mib", "PSS of the worker, idle, MiB", at_most(60), at_most(40), sample="worker idle"),
    Promise("worker_1000_mib", "PSS of the worker with 1,000 streams, MiB", at_most(90), at_most(55),
            sample="worker with 1,000 streams"),
    Promise("all_idle_mib", "PSS of all Blazar processes idle, no child, MiB", at_most(130), at_most(85),
            sample="all idle"),
    Promise("start_s", "exec of `serve` → first 200 of `/v1/models`, s", at_most(1.5), at_most(0.8), sample="start"),
    Promise("help_x_python", "`blazar --help`, × `python -I -c pass`", at_most(4), at_most(2), sample="help"),
    Promise("feature_cost_us", "features of a hot request (`make bench-cost`), CPU µs", at_most(25), at_most(15),
            sample="feature cost"),
    Promise("gone_ms", "client gone → connection to the child closed, prompt phase, ms", at_most(10), at_most(1),
            _own(workloads.GONE, figures.noticed, MS)),
)


def judge(rows: Sequence[figures.Row], samples: Samples, subjects: Mapping[str, float],
          missing: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Every promise with its value. `subjects` are Blazar and its other ends, each with the factor it is granted;
    `missing` are references that could not be had, and what would bring them. Others that were not run were not asked
    for, and their promises are left out.

    A value is None when it could not be had; `note` says why, and begins with INVALID when counts did not agree.
    """
    rounds = figures.rounds_of(rows)
    run = {row["target"] for row in rows}
    judged: dict[str, dict[str, Any]] = {}
    for subject, factor in subjects.items():
        for promise in PROMISES:
            if promise.needs and promise.needs not in run and promise.needs not in missing:
                continue
            name = promise.name if subject == "blazar" else f"{promise.name} ({subject})"
            must, aim = promise.must.loosened(factor), promise.aim.loosened(factor)
            judged[name] = {"value": None, "must": str(must), "aim": str(aim)}
            if promise.needs in missing:
                judged[name]["note"] = missing[promise.needs]
                continue
            try:
                judged[name]["value"] = round(promise.value(rounds, samples, subject), 3)
            except figures.Unsound as error:
                judged[name]["note"] = f"{counts.INVALID}: {error}"
            except figures.Unmeasured as error:
                judged[name]["note"] = str(error)
    return judged


def met(entry: Mapping[str, Any], bound: str) -> bool:
    """Whether a value of `judge` keeps its `must` or its `aim`."""
    sign, limit = entry[bound].split()
    return entry["value"] is not None and Bound(sign, float(limit)).holds(entry["value"])
