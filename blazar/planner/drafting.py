"""`Drafting`: a plan with the speculation that costs the model nothing. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from blazar.planner import speculation
from blazar.planner.demand import demand_of
from blazar.planner.machine import Machine
from blazar.planner.plan import Plan, Refusal
from blazar.planner.planner import plan
from blazar.planner.speculation import Candidate
from blazar.store.shape import Shape


@dataclass(frozen=True)
class Drafting:
    """What is known beforehand; `beside` are the bytes of projector and adapters."""

    settings: Mapping[str, Any]
    beside: int
    candidate: Candidate
    types: tuple[str, ...] | None
    """The engine's kinds of speculation; None = not known."""

    def plan(self, shape: Shape, machine: Machine) -> Plan | Refusal:
        """A plan of what was set, or of the best that costs the model nothing of what it would be without."""
        def fits(family: str, draft: Candidate | None) -> bool:
            alone, both = self._planned(shape, machine, "off", None), self._planned(shape, machine, family, draft)
            return isinstance(alone, Plan) and isinstance(both, Plan) and both.as_good_as(alone)

        chosen = speculation.choose(self.settings, self.candidate, self.types, fits, shape.ahead)
        found = self._planned(shape, machine, chosen.family, chosen.draft)
        lines = (*found.lines, chosen.line())
        if isinstance(found, Refusal):
            return replace(found, lines=lines)
        return replace(found, lines=lines, notice=chosen.notice, draft=chosen.draft.path if chosen.draft else None,
                       settings=MappingProxyType({**found.settings, "spec": chosen.family}))

    def _planned(self, shape: Shape, machine: Machine, family: str, draft: Candidate | None) -> Plan | Refusal:
        demand = demand_of({**self.settings, "spec": family}, self.beside, draft.shape if draft else None)
        return plan(shape, demand, machine)
