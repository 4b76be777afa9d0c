"""Whether a model file fits into this machine."""

from dataclasses import dataclass

from blazar.hardware.census import Census

SHARE = 0.8
"""Of the budget, what the weights may take; the rest is for context and the system."""


@dataclass(frozen=True)
class Fit:
    """The answer, true or false by itself, with the numbers it came from, in bytes."""

    needed: int
    limit: int | None
    """What a file may have here; None when nobody knows, and then nothing is refused."""
    budget: int | None
    where: str
    """What the budget is: the name of a GPU, or `memory`."""

    def __bool__(self) -> bool:
        return self.limit is None or self.needed <= self.limit


def fit(file_bytes: int, census: Census) -> Fit:
    """Whether weights of that size fit into the largest GPU or the main memory, whichever is larger."""
    budgets = [(gpu.memory, gpu.name or f"{gpu.vendor} GPU") for gpu in census.gpus or () if gpu.memory is not None]
    if census.memory.usable is not None:
        budgets.append((census.memory.usable, "memory"))
    if not budgets:
        return Fit(file_bytes, None, None, "memory")
    budget, where = max(budgets, key=lambda one: one[0])
    return Fit(file_bytes, int(budget * SHARE), budget, where)
