"""The plan of an installed model: its files and settings in, `Plan` or `Refusal` out. Reads headers, nothing else."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from blazar.errors import FitRefused, LoadFailed, ModelFileRefused
from blazar.planner import speculation
from blazar.planner.demand import demand_of
from blazar.planner.guard import guarded
from blazar.planner.machine import Machine
from blazar.planner.plan import Plan, Refusal
from blazar.planner.planner import plan
from blazar.planner.speculation import Candidate
from blazar.store.gguf import read_header
from blazar.store.installed import Installed
from blazar.store.pairs import Pair, family_of, pair_of
from blazar.store.shape import read_shape, shape_of
from blazar.store.vocabulary import why_unlike
from blazar.units import format_bytes


def plan_installed(model: Installed, settings: Mapping[str, Any], machine: Machine, pair: Pair | None = None,
                   types: Sequence[str] | None = None) -> Plan | Refusal:
    """How `model`, a GGUF one, is loaded on `machine`. Raises ModelFileRefused.

    `pair` is its draft, by default the one that came with it; `types` are the engine's kinds of speculation.
    """
    shape = read_shape([piece.path for piece in model.pieces if piece.role in ("model", "part")])
    own = {role: sum(piece.size for piece in model.pieces if piece.role == role) for role in ("projector", "adapter")}
    beside = _size(settings.get("mmproj")) or own["projector"]
    beside += own["adapter"] + sum(_size(adapter["path"]) for adapter in settings.get("loras") or ())
    if shape.embedding:
        return plan(shape, demand_of(settings, beside), machine)

    def planned(family: str, draft: Candidate | None) -> Plan | Refusal:
        return plan(shape, demand_of({**settings, "spec": family}, beside, draft.shape if draft else None), machine)

    def fits(family: str, draft: Candidate | None) -> bool:
        alone, both = planned("off", None), planned(family, draft)
        return isinstance(alone, Plan) and isinstance(both, Plan) and both.as_good_as(alone)

    chosen = speculation.choose(settings, _candidate(model, settings, pair or pair_of(model, ())), types, fits,
                                shape.ahead)
    found = planned(chosen.family, chosen.draft)
    lines = (*found.lines, chosen.line())
    if isinstance(found, Refusal):
        return replace(found, lines=lines)
    return replace(found, lines=lines, notice=chosen.notice, draft=chosen.draft.path if chosen.draft else None,
                   settings=MappingProxyType({**found.settings, "spec": chosen.family}))


def _candidate(model: Installed, settings: Mapping[str, Any], pair: Pair) -> Candidate:
    """The draft as far as it is of use: one for another family than the one that was set is left alone."""
    family = settings.get("spec") or "auto"
    if pair.path is None or family.startswith(("off", "ngram")):
        return Candidate(why=pair.why)
    try:
        header = read_header(pair.path)
    except ModelFileRefused as error:
        return Candidate(why=f"its draft cannot be read ({error})")
    kind = family_of(header)
    if family != "auto" and family.split("-")[0] != kind:
        return Candidate(why=f"its draft is one for {kind}")
    why = why_unlike(model.file, pair.path) if kind == "draft" else ""
    return Candidate(pair.path, pair.name, f"its draft {pair.name} does not fit it: {why}" if why else "",
                     shape_of(header), kind)


def _size(path: str | None) -> int:
    """Bytes of a file that settings name; 0 without one."""
    return os.path.getsize(path) if path and os.path.isfile(path) else 0


def plan_load(model: Installed, settings: Mapping[str, Any], machine: Machine, pair: Pair | None = None,
              types: Sequence[str] | None = None) -> Plan:
    """As `plan_installed`, for a load at this moment. Raises FitRefused with the numbers and the levers."""
    refusal = guarded(model.size, machine.free) if settings.get("spawn_mem_guard", True) else None
    found = refusal or plan_installed(model, settings, machine, pair, types)
    if isinstance(found, Refusal):
        raise refused(model.name, found)
    return found


def refused(model: str, refusal: Refusal) -> LoadFailed:
    """The refusal in words."""
    return FitRefused(model=model, needed=format_bytes(refusal.needed), levers="; ".join(refusal.levers),
                      limit=f"{refusal.where} is {format_bytes(refusal.limit)}")
