"""`ManyNeeds`: what a child needs that loads many models in turn, a few of them at a time. Pure; sizes are bytes.

Each model has the plan that it would have alone. What counts as held is the most that may be loaded at once, whichever
models these are; where that does not fit, fewer are loaded at a time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from blazar.hardware.census import Census
from blazar.planner.ladder import FINEST
from blazar.planner.need import NOT_AT_ALL, Need, Offer
from blazar.planner.plan import Plan
from blazar.planner.room import MAIN_MEMORY, Held, Room

USUAL = 4
"""How many models llama.cpp's router keeps loaded when it is not told."""
FEWER = "it loads {found} of its models at a time and not {wanted}, since the largest would not fit beside each other"


@dataclass(frozen=True)
class ManyPlans(Plan):
    """How each model is loaded; what a plan says of one model says nothing here."""

    plans: Mapping[str, Plan] = field(default_factory=dict)
    most: int = 0
    """How many are loaded at a time; 0 leaves that to the child."""


@dataclass(frozen=True)
class ManyNeeds:
    """`most` are loaded at a time, 0 = as many as the child keeps by itself."""

    needs: Mapping[str, Need]
    most: int = 0

    def offer(self, census: Census, room: Room) -> Offer:
        """How the models are loaded into the `room`; those that do not fit even alone are left out."""
        asked = {model: self.needs[model].offer(census, room) for model in sorted(self.needs)}
        offers = {model: found for model, found in asked.items() if isinstance(found, Offer)}
        budgets = self._budgets(census, room)
        wanted = min(self.most or USUAL, len(offers))
        found = next((number for number in range(wanted, 1, -1) if _fits(_most_of(offers.values(), number), budgets)),
                     min(wanted, 1))
        plans = ManyPlans(0, 0, FINEST, (), plans={model: offer.plan for model, offer in offers.items()},
                          most=self.most if found == wanted else found)
        if found < wanted:
            plans = replace(plans, notice=FEWER.format(found=found, wanted=wanted))
        worth = tuple(number for model in asked
                      for number in (offers[model].worth if model in offers else NOT_AT_ALL))
        return Offer(plans, _most_of(offers.values(), found), worth)

    def _budgets(self, census: Census, room: Room) -> dict[str, int]:
        budgets: dict[str, int] = {}
        for need in self.needs.values():
            machine = need.machine(census).beside(room)
            budgets |= {card.key: card.budget for card in machine.pool}
            if machine.ram is not None:
                budgets[MAIN_MEMORY] = machine.ram
        return budgets


def _fits(held: Held, budgets: Mapping[str, int]) -> bool:
    return all(size <= budgets.get(key, size) for key, size in held.sizes.items())


def _most_of(offers: Iterable[Offer], number: int) -> Held:
    """The most that `number` of them hold together, in each memory."""
    helds = [offer.held for offer in offers]

    def largest(sizes: Iterable[int]) -> int:
        return sum(sorted(sizes)[-number:]) if number else 0

    keys = sorted({key for held in helds for key in held.sizes})
    return Held({key: largest(held.sizes.get(key, 0) for held in helds) for key in keys},
                largest(held.mapped for held in helds))
