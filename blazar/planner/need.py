"""`Need`: everything about one model that decides how it is loaded into whatever room there is. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from blazar.hardware.census import Census
from blazar.planner.demand import Demand
from blazar.planner.drafting import Drafting
from blazar.planner.guard import guarded
from blazar.planner.ladder import LADDER
from blazar.planner.machine import Machine, Worker, machine_of
from blazar.planner.plan import THE_CARDS, Line, Plan, Refusal
from blazar.planner.planner import plan
from blazar.planner.room import MAIN_MEMORY, Held, Room
from blazar.store.shape import Shape

TUNERS = {"slots": "adaptive_slots", "spec": "spec_auto_manage", "ubatch_size": "ubatch_auto",
          "default_ctx": "default_ctx, ctx"}
"""What may be changed while the daemon runs, and the setting that has it changed."""

NOT_AT_ALL = (-1 << 62,) * 6
"""What a model is worth that is not loaded: less than any that is."""


@dataclass(frozen=True)
class Offer:
    """A plan for a certain room."""

    plan: Plan
    held: Held
    worth: tuple[int, ...]
    """What makes a plan better, each number by itself; more is better."""

    def serves(self, best: "Offer") -> bool:
        """Whether it is in nothing worse than `best`, the number of slots aside."""
        return all(mine >= other for mine, other in zip(self.worth, best.worth, strict=True))


@dataclass(frozen=True)
class Need:
    shape: Shape
    demand: Demand
    size: int = 0
    """Bytes of the model's files."""
    workers: Sequence[Worker] = ()
    silent: Sequence[str] = ()
    gone: Sequence[tuple[str, str]] = ()
    uses_cards: bool = True
    is_mapped: bool = True
    """Whether the engine maps the weights, so that the pages of the file are what it reads."""
    drafting: Drafting | None = None
    """How speculation is chosen, for a model that writes."""
    tuned: Mapping[str, Any] = field(default_factory=dict)
    """Settings that were changed while the daemon ran."""
    untuned: "Need | None" = None
    """What it needs without them."""

    def plan(self, machine: Machine) -> Plan | Refusal:
        """How it is loaded on `machine`: with what was changed while the daemon ran, if it fits so."""
        found = self.drafting.plan(self.shape, machine) if self.drafting else plan(self.shape, self.demand, machine)
        if self.untuned is None:
            return found
        if isinstance(found, Refusal):
            return self.untuned.plan(machine)
        lines = (Line("adapted", f"{name} = {value}", "while the daemon ran", TUNERS[name])
                 for name, value in self.tuned.items())
        return replace(found, lines=(*found.lines, *lines),
                       settings=MappingProxyType({**self.tuned, **found.settings}))

    def offer(self, census: Census, room: Room) -> Offer | Refusal:
        """How it is loaded into the `room` on the machine of `census`, or why it cannot be."""
        whole = self.machine(census)
        machine = whole.beside(room)
        refusal = guarded(self.size, machine.free) if self.demand.guard else None
        found = refusal or self.plan(machine)
        if isinstance(found, Plan):
            return Offer(found, held_by(found, machine, self.is_mapped), _worth(found, machine))
        if refusal is None and isinstance(self.plan(whole), Plan):
            return replace(found, where="what is free of this machine's memory")
        return found

    def machine(self, census: Census) -> Machine:
        """With nothing on it."""
        workers = machine_of(census, self.workers, self.uses_cards, now=True).workers
        return replace(machine_of(census, self.workers, self.uses_cards, silent=self.silent, gone=self.gone),
                       workers=workers)


def held_by(found: Plan, machine: Machine, is_mapped: bool = True) -> Held:
    """What a child has once it is loaded as planned. What lies on cards of which nobody knows which is counted on all,
    in proportion to their room."""
    sizes: dict[str, int] = {}
    for part in found.parts:
        if part.place == THE_CARDS or (machine.is_spread and part.place != MAIN_MEMORY):
            shares = _spread(part.total, machine)
        else:
            shares = {part.memory or part.place: part.total}
        for key, size in shares.items():
            sizes[key] = sizes.get(key, 0) + size
    main = next((part for part in found.parts if part.place == MAIN_MEMORY), None)
    return Held(sizes, main.weights if main and is_mapped else 0)


def _spread(size: int, machine: Machine) -> dict[str, int]:
    cards = (*machine.workers, *machine.cards)
    room = sum(card.budget for card in cards)
    return {card.key: size * card.budget // room if room else size // len(cards) for card in cards}


def _worth(found: Plan, machine: Machine) -> tuple[int, ...]:
    """Context, fineness of the cache, layers on cards, experts on cards, whether it keeps its budgets, and whether
    main memory has all that it wants at this moment."""
    on_cards = sum(part.layers for part in found.parts if part.place != MAIN_MEMORY)
    in_main = sum(part.total for part in found.parts if part.place == MAIN_MEMORY)
    fineness = -LADDER.index(found.grade) if found.grade in LADDER else 0
    fits = all(part.budget is None or part.total <= part.budget for part in found.parts)
    return (found.ctx, fineness, on_cards, -(found.settings.get("cpu_moe_n") or 0), int(fits),
            int(machine.free is None or in_main <= machine.free))
