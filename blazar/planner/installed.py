"""The need and the plan of an installed model, of its files and settings. Reads headers, nothing else."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from blazar.errors import FitRefused, LoadFailed
from blazar.planner.demand import demand_of
from blazar.planner.machine import Machine, Worker
from blazar.planner.need import Need
from blazar.planner.plan import Plan, Refusal
from blazar.planner.planner import plan
from blazar.store.installed import Installed
from blazar.store.shape import read_shape
from blazar.units import format_bytes

DRAFTLESS = ("auto", "off", "mtp", "ngram")
"""How the families of speculation begin that use no draft model beside this one."""


def need_of(model: Installed, settings: Mapping[str, Any], workers: Sequence[Worker] = (),
            silent: Sequence[str] = (), uses_cards: bool = True) -> Need:
    """What `model`, a GGUF one, needs. Raises ModelFileRefused."""
    shape = read_shape([piece.path for piece in model.pieces if piece.role in ("model", "part")])
    own = {role: sum(piece.size for piece in model.pieces if piece.role == role) for role in ("projector", "adapter")}
    beside = _size(settings.get("mmproj")) or own["projector"]
    beside += own["adapter"] + sum(_size(adapter["path"]) for adapter in settings.get("loras") or ())
    drafts = [piece.path for piece in model.pieces if piece.role == "draft"]
    is_drafted = drafts and not (settings.get("spec") or "auto").startswith(DRAFTLESS)
    demand = demand_of(settings, beside, read_shape(drafts[:1]) if is_drafted else None)
    return Need(shape, demand, model.size, tuple(workers), tuple(silent), uses_cards,
                is_mapped=settings.get("load_mode") in (None, "", "mmap"))


def plan_installed(model: Installed, settings: Mapping[str, Any], machine: Machine) -> Plan | Refusal:
    """How `model`, a GGUF one, is loaded on `machine`. Raises ModelFileRefused."""
    need = need_of(model, settings)
    return plan(need.shape, need.demand, machine)


def _size(path: str | None) -> int:
    """Bytes of a file that settings name; 0 without one."""
    return os.path.getsize(path) if path and os.path.isfile(path) else 0


def refused(model: str, refusal: Refusal) -> LoadFailed:
    """The refusal in words."""
    return FitRefused(model=model, needed=format_bytes(refusal.needed), levers="; ".join(refusal.levers),
                      limit=f"{refusal.where} is {format_bytes(refusal.limit)}")
