"""What `blazar explain` is told: how a model is loaded, or would be, and why, and what would go for it."""

from collections.abc import Sequence
from typing import Any

from blazar.engines.program import Program
from blazar.planner.need import Offer
from blazar.planner.plan import Plan, Refusal
from blazar.supervisor.actions import Action, Evict, Refuse, Start
from blazar.supervisor.means import Prepared
from blazar.transport import model_at


def of_child(model: str, prepared: Prepared) -> dict[str, Any]:
    """A model that has a child: the plan that it was started with, and its command."""
    launch, command = prepared.launch, prepared.command
    return {**told(model, launch.program, launch.plan), "loaded": True, "argv": list(command.argv),
            "skipped": list(command.skipped)}


def told(model: str, program: Program, plan: Plan | Refusal | None) -> dict[str, Any]:
    """A model that has none."""
    return {"model": model, "loaded": False, "engine": program.tag or program.argv[0], "argv": [], "skipped": [],
            "plan": None if plan is None else plan.to_dict(), "goes": [], "refused": ""}


def of_absent(model: str, program: Program, best: Offer | Refusal, decided: Sequence[Action]) -> dict[str, Any]:
    """A model that has none, with what is `decided` if it is asked for now; `best` is its plan with all the room that
    can be made."""
    start = next((action for action in decided if isinstance(action, Start)), None)
    refusal = next((action.why for action in decided if isinstance(action, Refuse)), "")
    plan = start.offer.plan if start else best.plan if isinstance(best, Offer) else best
    goes = sorted({model_at(action.place) for action in decided if isinstance(action, Evict)})
    return {**told(model, program, refusal if isinstance(refusal, Refusal) else plan), "goes": goes,
            "refused": refusal if isinstance(refusal, str) else ""}
