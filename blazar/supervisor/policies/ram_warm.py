"""Whether the weights of a child that went for idleness are read into the page cache again."""

from collections.abc import Mapping
from typing import Any

SPARE = 0.1
"""The part of main memory that stays free beside the weights."""


def refusal(settings: Mapping[str, Any], size: int, free: int | None, usable: int | None) -> str:
    """Why not, for weights of `size` bytes; empty when they are. `free` and `usable` are bytes of main memory."""
    if not settings.get("idle_ram_warm"):
        return "idle_ram_warm is off"
    if settings.get("load_mode") == "direct-io":
        return "with load_mode = direct-io the engine does not read through the page cache"
    if free is None or usable is None:
        return "how much memory is free is not known"
    return "memory is short" if size + usable * SPARE > free else ""
