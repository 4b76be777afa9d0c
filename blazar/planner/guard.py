"""`spawn_mem_guard`: whether main memory is plainly too small at this moment."""

from blazar.planner.plan import Line, Refusal
from blazar.units import format_bytes

RESERVE = 512 << 20
"""Bytes that have to be free besides half of the model."""


def guarded(size: int, free: int | None) -> Refusal | None:
    """Why a model with files of `size` bytes may not start now; None when it may, or nobody knows."""
    needed = size // 2 + RESERVE
    if free is None or free >= needed:
        return None
    lines = (Line("free memory", format_bytes(free), "can be had at this moment"),
             Line("needed", format_bytes(needed), f"half of {format_bytes(size)} and {format_bytes(RESERVE)}",
                  "spawn_mem_guard"))
    return Refusal(needed, free, "main memory that is free now",
                   ("unload another model with `blazar stop`", "set spawn_mem_guard = false to try all the same"),
                   lines)
