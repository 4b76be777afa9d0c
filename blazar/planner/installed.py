"""An installed model as the planner takes it, and a refusal in words."""

import os
from collections.abc import Mapping, Sequence
from typing import Any

from blazar.errors import FitRefused, LoadFailed, ModelFileRefused
from blazar.planner.demand import demand_of
from blazar.planner.drafting import Drafting
from blazar.planner.machine import Machine, Worker
from blazar.planner.need import Need
from blazar.planner.plan import Plan, Refusal
from blazar.planner.projector import chosen
from blazar.planner.speculation import Candidate
from blazar.store.gguf import read_header
from blazar.store.installed import Installed
from blazar.store.pairs import Pair, family_of, pair_of
from blazar.store.shape import read_shape, shape_of
from blazar.store.vocabulary import why_unlike
from blazar.units import format_bytes


def need_of(model: Installed, settings: Mapping[str, Any], workers: Sequence[Worker] = (),
            silent: Sequence[str] = (), gone: Sequence[tuple[str, str]] = (), uses_cards: bool = True,
            pair: Pair | None = None, types: Sequence[str] | None = None) -> Need:
    """What `model`, a GGUF one, needs. Raises ModelFileRefused.

    `pair` is its draft, by default the one that came with it; `types` are the engine's kinds of speculation.
    """
    shape = read_shape([piece.path for piece in model.pieces if piece.role in ("model", "part")])
    projector = next((str(piece.path) for piece in model.pieces if piece.role == "projector"), None)
    beside = _size(chosen(settings, projector)) + sum(piece.size for piece in model.pieces if piece.role == "adapter")
    beside += sum(_size(adapter["path"]) for adapter in settings.get("loras") or ())
    drafting = None
    if not shape.embedding:
        drafting = Drafting(settings, beside, _candidate(model, settings, pair or pair_of(model, ())),
                            None if types is None else tuple(types))
    return Need(shape, demand_of(settings, beside), model.size, tuple(workers), tuple(silent), tuple(gone),
                uses_cards, is_mapped=settings.get("load_mode") in (None, "", "mmap"), drafting=drafting)


def plan_installed(model: Installed, settings: Mapping[str, Any], machine: Machine, pair: Pair | None = None,
                   types: Sequence[str] | None = None) -> Plan | Refusal:
    """How `model` is loaded on `machine`; otherwise as `need_of`."""
    return need_of(model, settings, pair=pair, types=types).plan(machine)


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


def refused(model: str, refusal: Refusal) -> LoadFailed:
    """The refusal in words."""
    return FitRefused(model=model, needed=format_bytes(refusal.needed), levers="; ".join(refusal.levers),
                      limit=f"{refusal.where} is {format_bytes(refusal.limit)}")
