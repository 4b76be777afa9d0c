"""A plan as a table: what, how much, why, and which setting changes it; then warnings, and whether it fits."""

from typing import Any

from blazar.cli.output import Output
from blazar.units import format_bytes


def tell_plan(out: Output, told: dict[str, Any]) -> int:
    """Print `told`, the answer of /api/explain or its like; the exit code, 1 when the model does not fit."""
    plan = told["plan"] or {"fits": True, "lines": [], "warnings": [], "parts": []}
    rows = [(line["what"], line["value"], line["reason"], line["setting"]) for line in plan["lines"]]
    out.table(("WHAT", "VALUE", "WHY", "SETTING"), rows, told)
    if not out.as_json:
        out.line()
        for warning in plan.get("warnings", ()):
            out.line(f"warning: {warning}")
        out.line(_verdict(told["model"], plan))
        if told.get("goes"):
            out.line(f"it would take the place of {', '.join(told['goes'])}")
        if told.get("refused"):
            out.line(f"but it would not be loaded now: {told['refused']}")
    return 0 if plan["fits"] and not told.get("refused") else 1


def _verdict(model: str, plan: dict[str, Any]) -> str:
    if not plan["fits"]:
        levers = "".join(f"\n  - {lever}" for lever in plan["levers"])
        return (f"{model} does not fit: it needs {format_bytes(plan['needed'])}, and {plan['where']} is "
                f"{format_bytes(plan['limit'])}. What helps:{levers}")
    total = sum(part["total"] for part in plan["parts"])
    return f"{model} fits: {format_bytes(total)} in all" if total else f"nothing is planned for {model}"
