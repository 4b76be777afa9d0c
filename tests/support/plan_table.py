"""The plans of known models on recorded machines, as a table that a person can read and disagree with.

`python -m tests.support.plan_table` writes tests/data/plans.txt anew; look at the difference before you keep it.
"""

from collections.abc import Iterator
from pathlib import Path

from blazar.hardware.census import read_census
from blazar.planner.demand import Demand
from blazar.planner.machine import machine_of
from blazar.planner.plan import MAIN_MEMORY, Plan, Refusal
from blazar.planner.planner import plan
from blazar.units import format_bytes
from tests.support.known_models import KNOWN

DATA = Path(__file__).parents[1] / "data"
TABLE = DATA / "plans.txt"
DEFAULT = Demand(ctx=16384)


def cell(model: str, machine: str, demand: Demand = DEFAULT) -> str:
    """One plan in a few words."""
    found = plan(KNOWN[model].shape(), demand, machine_of(read_census(DATA / "census" / f"{machine}.json")))
    return _refused(found) if isinstance(found, Refusal) else _planned(found)


def _refused(found: Refusal) -> str:
    return f"no: needs {format_bytes(found.needed)}, there are {format_bytes(found.limit)}"


def _planned(found: Plan) -> str:
    cards = [part for part in found.parts if part.place != MAIN_MEMORY and part.layers]
    main = next(part for part in found.parts if part.place == MAIN_MEMORY)
    words = [f"{found.ctx} x {found.slots}", str(found.grade)]
    if not cards:
        words.append(f"in main memory, {format_bytes(main.total)}")
    else:
        words.append(" + ".join(format_bytes(part.total) for part in cards))
        words.append(f"on {len(cards)} card{'s' if len(cards) > 1 else ''}")
    if "tensor_split" in found.settings:
        words.append(f"split {found.settings['tensor_split']} cards {found.env['CUDA_VISIBLE_DEVICES']}")
    if "cpu_moe_n" in found.settings:
        words.append(f"experts of {found.settings['cpu_moe_n']} layers in main memory")
    if found.gpu_layers is not None:
        words.append(f"{found.gpu_layers} layers on cards, {format_bytes(main.total)} in main memory")
    return ", ".join(words)


def lines() -> Iterator[str]:
    for path in sorted((DATA / "census").glob("*.json")):
        machine = machine_of(read_census(path))
        cards = ", ".join(f"{card.name} {format_bytes(card.memory)}" for card in machine.cards) or "no cards"
        yield f"{path.stem}: {cards}; main memory {format_bytes(machine.main or 0)}"
        for name, known in KNOWN.items():
            yield f"  {name:17} {format_bytes(known.shape().weights):>9}  {cell(name, path.stem)}"
        yield ""


if __name__ == "__main__":
    TABLE.write_text("\n".join(lines()))
