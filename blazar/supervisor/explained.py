"""What `blazar explain` is told: how a model is loaded, or would be, and why."""

from typing import Any

from blazar.engines.program import Program
from blazar.planner.plan import Plan, Refusal
from blazar.supervisor.child import Prepared


def of_child(model: str, prepared: Prepared) -> dict[str, Any]:
    """A model that has a child: the plan that it was started with, and its command."""
    launch, command = prepared.launch, prepared.command
    return {**told(model, launch.program, launch.plan), "loaded": True, "argv": list(command.argv),
            "skipped": list(command.skipped)}


def told(model: str, program: Program, plan: Plan | Refusal | None) -> dict[str, Any]:
    """A model that has none."""
    return {"model": model, "loaded": False, "engine": program.tag or program.argv[0], "argv": [], "skipped": [],
            "plan": None if plan is None else plan.to_dict()}
