"""What a model can do, as clients are told: what its files make it, with the settings as they are."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from blazar.errors import ModelFileRefused
from blazar.planner.projector import by_hand, has_flag, why_left_out
from blazar.store.gguf import read_header
from blazar.store.pieces import senses_of

SENSES = ("vision", "audio")


def as_configured(model: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The snapshot's entry of a model, or its description, under its effective `settings`.

    `blind` is the setting that keeps its projector from being loaded, where one does; `late_chunking` says that its
    child gives a vector for each token. A projector's file may be read.
    """
    able = model["capabilities"]
    if "embedding" in able:
        return {**model, "late_chunking": True} if settings.get("late_chunking") else dict(model)
    left_out, words = why_left_out(settings), settings.get("extra_args") or ()
    named = by_hand(words) if has_flag(words) else settings.get("mmproj")
    if not named and not left_out:
        return dict(model)
    senses = () if left_out else _senses_in(str(named))
    is_blinded = left_out and (named or any(sense in able for sense in SENSES))
    return {**model, "capabilities": [*(one for one in able if one not in SENSES), *senses],
            **({"blind": left_out} if is_blinded else {})}


def _senses_in(path: str) -> tuple[str, ...]:
    """What a projector takes; of one that cannot be read, its load will tell."""
    try:
        return senses_of(read_header(Path(path)))
    except (ModelFileRefused, OSError):
        return ("vision",)
