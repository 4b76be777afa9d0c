"""Which installed file drafts for a model: one that came with it, else the model that the catalog pairs with it."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from blazar.store.catalog import RepoEntry, find
from blazar.store.gguf import Header
from blazar.store.installed import Installed

BY_ARCHITECTURE = {"eagle3": "eagle3", "dflash": "dflash"}
"""Drafts of a kind of their own, by the architecture that their files name."""


@dataclass(frozen=True)
class Pair:
    """A draft for a model, or why there is none."""

    path: Path | None = None
    name: str = ""
    why: str = ""


def pair_of(model: Installed, installed: Iterable[Installed]) -> Pair:
    """The draft for `model`; `installed` are all models, among which the catalog's partner is looked for."""
    for piece in model.pieces:
        if piece.role == "draft":
            return Pair(piece.path, piece.name)
    found = find(model.name)
    wanted = found.entry.draft if found and isinstance(found.entry, RepoEntry) else ""
    if not wanted:
        return Pair(why="no draft came with it and the catalog pairs none with it")
    fitting = [other for other in installed if len(other.pieces) == 1 and _is(other, wanted)]
    if not fitting:
        return Pair(why=f"its draft is not here (`blazar pull {wanted}`)")
    best = min(fitting, key=lambda other: (other.size, other.name))
    return Pair(best.file, best.name)


def family_of(header: Header) -> str:
    """How a draft file is used, as a family of speculation; "draft" for a model like any other."""
    architecture = str(header.metadata.get("general.architecture", ""))
    family = BY_ARCHITECTURE.get(architecture, "draft")
    if family == "dflash" and "markov_w1.weight" in header.tensor_bytes:
        return "dspark"
    last = header.metadata.get(f"{architecture}.block_count")
    if isinstance(last, int) and f"blk.{last - 1}.nextn.eh_proj.weight" in header.tensor_bytes:
        return "mtp"
    return family


def _is(model: Installed, wanted: str) -> bool:
    found = find(model.name)
    return found is not None and found.entry.name == wanted
