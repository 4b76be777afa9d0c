"""`Plan` and `Refusal`: what comes out of planning, with every number that it came from. All sizes are bytes."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from blazar.planner.kv import Grade
from blazar.planner.room import MAIN_MEMORY

THE_CARDS = "the cards"
"""All of them together, when a person has placed the model."""


@dataclass(frozen=True)
class Line:
    """One line of the explanation: what, how much, why, and by which setting a person changes it."""

    what: str
    value: str
    reason: str = ""
    setting: str = ""


@dataclass(frozen=True)
class Part:
    """What lies in one memory."""

    place: str
    weights: int
    cache: int
    compute: int
    beside: int = 0
    """Projector, adapters and draft model."""
    budget: int | None = None
    layers: int = 0
    memory: str = ""
    """The key of the card or worker: its address, while `place` is its name; empty for the other two."""
    program: int = 0
    """What the engine takes for itself."""

    @property
    def total(self) -> int:
        return self.weights + self.cache + self.compute + self.beside + self.program


@dataclass(frozen=True)
class Plan:
    """How a model is loaded."""

    ctx: int
    """Tokens of each slot; 0 = not known, the engine takes what the model was trained with."""
    slots: int
    grade: Grade
    parts: tuple[Part, ...]
    """Cards and workers first, main memory last."""
    gpu_layers: int | None = None
    """Layers on cards, the head counted as one; None leaves it to the engine, which takes all that it can."""
    env: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Variables that name the cards."""
    settings: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """Settings as planned, in place of those that left it open."""
    lines: tuple[Line, ...] = ()
    warnings: tuple[str, ...] = ()
    spare: int = 0
    """Bytes of the model's file that stay mapped though the engine has a copy of them; the system takes them when it
    needs room."""
    draft: Path | None = None
    """The file of a draft model that is loaded beside it."""
    notice: str = ""
    """A sentence for the log that warns of nothing."""

    def as_good_as(self, other: "Plan") -> bool:
        """Whether the model loses nothing by this plan in place of the other: context, precision, place."""
        cards, others = (sum(part.layers > 0 for part in plan.parts) for plan in (self, other))
        return (self.ctx >= other.ctx and cards <= others and self.grade == other.grade
                and self.gpu_layers == other.gpu_layers
                and self.settings.get("cpu_moe_n") == other.settings.get("cpu_moe_n"))

    @property
    def on_cards(self) -> int:
        return sum(part.total for part in self.parts if part.place != MAIN_MEMORY)

    @property
    def total(self) -> int:
        """What has to be there."""
        return sum(part.total for part in self.parts)

    @property
    def resident(self) -> int:
        """What the process is seen to hold where there is room."""
        return self.total + self.spare

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return {"fits": True, "ctx": self.ctx, "slots": self.slots, "cache_type_k": self.grade.keys,
                "cache_type_v": self.grade.values, "gpu_layers": self.gpu_layers, "env": dict(self.env),
                "settings": dict(self.settings), "resident": self.resident,
                "parts": [{**asdict(part), "total": part.total} for part in self.parts],
                "lines": [asdict(line) for line in self.lines], "warnings": list(self.warnings)}


@dataclass(frozen=True)
class Refusal:
    """Why a model cannot be loaded here, however long one waits."""

    needed: int
    limit: int
    where: str
    """What the limit is, for the end of a sentence."""
    levers: tuple[str, ...]
    """What a person may do, the likeliest first."""
    lines: tuple[Line, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {"fits": False, "needed": self.needed, "limit": self.limit, "where": self.where,
                "levers": list(self.levers), "lines": [asdict(line) for line in self.lines]}
