"""The plan of an installed model: its files and settings in, `Plan` or `Refusal` out. Reads headers, nothing else."""

import os
from collections.abc import Mapping
from typing import Any

from blazar.errors import FitRefused, LoadFailed
from blazar.planner.demand import demand_of
from blazar.planner.guard import guarded
from blazar.planner.machine import Machine
from blazar.planner.plan import Plan, Refusal
from blazar.planner.planner import plan
from blazar.store.installed import Installed
from blazar.store.shape import read_shape
from blazar.units import format_bytes

DRAFTLESS = ("auto", "off", "mtp", "ngram")
"""How the families of speculation begin that use no draft model beside this one."""


def plan_installed(model: Installed, settings: Mapping[str, Any], machine: Machine) -> Plan | Refusal:
    """How `model`, a GGUF one, is loaded on `machine`. Raises ModelFileRefused."""
    shape = read_shape([piece.path for piece in model.pieces if piece.role in ("model", "part")])
    own = {role: sum(piece.size for piece in model.pieces if piece.role == role) for role in ("projector", "adapter")}
    beside = _size(settings.get("mmproj")) or own["projector"]
    beside += own["adapter"] + sum(_size(adapter["path"]) for adapter in settings.get("loras") or ())
    drafts = [piece.path for piece in model.pieces if piece.role == "draft"]
    is_drafted = drafts and not (settings.get("spec") or "auto").startswith(DRAFTLESS)
    return plan(shape, demand_of(settings, beside, read_shape(drafts[:1]) if is_drafted else None), machine)


def _size(path: str | None) -> int:
    """Bytes of a file that settings name; 0 without one."""
    return os.path.getsize(path) if path and os.path.isfile(path) else 0


def plan_load(model: Installed, settings: Mapping[str, Any], machine: Machine) -> Plan:
    """As `plan_installed`, for a load at this moment. Raises FitRefused with the numbers and the levers."""
    refusal = guarded(model.size, machine.free) if settings.get("spawn_mem_guard", True) else None
    found = refusal or plan_installed(model, settings, machine)
    if isinstance(found, Refusal):
        raise refused(model.name, found)
    return found


def refused(model: str, refusal: Refusal) -> LoadFailed:
    """The refusal in words."""
    return FitRefused(model=model, needed=format_bytes(refusal.needed), levers="; ".join(refusal.levers),
                      limit=f"{refusal.where} is {format_bytes(refusal.limit)}")
