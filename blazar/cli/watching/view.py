"""What `blazar watch` shows: one look at the counts, what has changed since the one before, and its lines. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from blazar.cli.watching.source import Event, sentence
from blazar.telemetry.exposition import Family
from blazar.units import format_bytes

Labels = Mapping[str, str]


@dataclass
class Row:
    """A model that has a child, or requests that wait."""

    model: str
    replicas: int = 0
    state: str = "absent"
    slots: int = 0
    busy: int = 0
    waiting: int = 0
    memory: int = 0
    """Bytes, by the plan."""
    pieces: float = 0.0
    """Pieces of streams since the gateway began: about as many as tokens."""
    rate: float | None = None
    """Tokens a second since the look before."""


@dataclass
class Look:
    """The daemon at one moment, `at` seconds of a clock that only goes on."""

    at: float
    rows: dict[str, Row] = field(default_factory=dict)
    memory: int = 0
    memory_free: int = 0
    gpus: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By name and place: bytes in all, and free ones."""
    in_flight: int = 0
    loads: int = 0
    evictions: int = 0
    deaths: int = 0

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {"memory": self.memory, "memory_free": self.memory_free, "requests": self.in_flight,
                "loads": self.loads, "evictions": self.evictions, "deaths": self.deaths,
                "gpus": {name: {"memory": size, "free": free} for name, (size, free) in self.gpus.items()},
                "models": [{"model": row.model, "state": row.state, "replicas": row.replicas, "slots": row.slots,
                            "busy": row.busy, "waiting": row.waiting, "memory": row.memory,
                            "tokens_per_second": None if row.rate is None else round(row.rate, 1)}
                           for row in self.rows.values()]}


def look(at: float, families: Mapping[str, Family], before: Look | None = None) -> Look:
    """The moment that these counts tell of."""
    found = Look(at, memory=int(_total(families, "blazar_memory_bytes")),
                 memory_free=int(_total(families, "blazar_memory_free_bytes")),
                 in_flight=int(_total(families, "blazar_requests_in_flight")),
                 loads=int(_total(families, "blazar_model_loads_total")),
                 evictions=int(_total(families, "blazar_model_evictions_total")),
                 deaths=int(_total(families, "blazar_child_deaths_total")))
    for labels, _ in _samples(families, "blazar_child_state"):
        row = _row(found, labels)
        row.replicas += 1
        row.state = labels["state"] if row.replicas == 1 or labels["state"] == "ready" else row.state
    for name, attribute in (("blazar_child_slots", "slots"), ("blazar_child_requests", "busy"),
                            ("blazar_requests_parked", "waiting"), ("blazar_child_memory_planned_bytes", "memory")):
        for labels, value in _samples(families, name):
            if value or labels["model"] in found.rows:
                row = _row(found, labels)
                setattr(row, attribute, getattr(row, attribute) + int(value))
    for labels, value in _samples(families, "blazar_inter_token_seconds", "_count"):
        if labels["model"] in found.rows:
            found.rows[labels["model"]].pieces += value
    for labels, value in _samples(families, "blazar_gpu_memory_bytes"):
        free = {have["gpu"]: left for have, left in _samples(families, "blazar_gpu_memory_free_bytes")}
        found.gpus[f"{labels['name']} {labels['gpu']}"] = int(value), int(free.get(labels["gpu"], 0))
    if before is not None and at > before.at:
        for model, row in found.rows.items():
            had = before.rows.get(model)
            row.rate = max(0.0, row.pieces - (had.pieces if had else row.pieces)) / (at - before.at)
    return found


def lines(now: Look, events: Sequence[Event], width: int, height: int) -> list[str]:
    """The screen: no line is longer than `width`, and there are at most `height`. The newest events go last."""
    head = [f"memory {format_bytes(now.memory - now.memory_free)} of {format_bytes(now.memory)}   "
            f"requests {now.in_flight}   loads {now.loads}   evictions {now.evictions}   deaths {now.deaths}"]
    head += [f"gpu {name}: {format_bytes(size - free)} of {format_bytes(size)}" for name, (size, free)
             in now.gpus.items()]
    room = max(0, height - len(head) - 2)
    rows = table(list(now.rows.values()), width)[:room] if now.rows else ["no model is loaded"]
    told = [sentence(event) for event in events]
    left = height - len(head) - len(rows) - 2
    tail = ["", *told[-left:]] if told and left > 0 else []
    return [line[:max(1, width)] for line in [*head, "", *rows, *tail]][:max(1, height)]


def table(rows: Sequence[Row], width: int) -> list[str]:
    """The models; on a narrow terminal names are cut, and figures stay."""
    figures = [("STATE", "SLOTS", "QUEUE", "TOK/S", "MEMORY")] + [
        (f"{row.state} x{row.replicas}" if row.replicas > 1 else row.state, f"{row.busy}/{row.slots}",
         str(row.waiting), "-" if row.rate is None else f"{row.rate:.1f}", format_bytes(row.memory)) for row in rows]
    widths = [max(len(one[place]) for one in figures) for place in range(len(figures[0]))]
    room = max(5, width - sum(widths) - 2 * len(widths))
    names = ["MODEL", *(row.model if len(row.model) <= room else row.model[:room - 1] + "…" for row in rows)]
    longest = max(map(len, names))
    return ["  ".join([name.ljust(longest), *(cell.ljust(size) for cell, size in zip(one, widths, strict=True))]
                      ).rstrip() for name, one in zip(names, figures, strict=True)]


def _row(found: Look, labels: Labels) -> Row:
    return found.rows.setdefault(labels["model"], Row(labels["model"]))


def _samples(families: Mapping[str, Family], name: str, suffix: str = "") -> list[tuple[dict[str, str], float]]:
    family = families.get(name)
    return [(dict(one.labels), float(one.value)) for one in family.samples if one.suffix == suffix] if family else []


def _total(families: Mapping[str, Family], name: str) -> float:
    return sum(value for _, value in _samples(families, name))
