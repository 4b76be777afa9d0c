"""What a model can be shown, as clients are told: what its projector takes, with the settings as they are."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from blazar.errors import ModelFileRefused
from blazar.planner.projector import by_hand, has_flag, why_left_out
from blazar.store.gguf import read_header
from blazar.store.pieces import senses_of

SENSES = ("vision", "audio")


def with_senses(model: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, Any]:
    """The snapshot's entry of a model, or its description, with the senses that it has under its effective `settings`.

    `blind` is the setting that takes its senses from it, where one does. A projector's file may be read.
    """
    own = [sense for sense in SENSES if sense in model["capabilities"]]
    left_out = why_left_out(settings)
    words = settings.get("extra_args") or ()
    named = by_hand(words) if has_flag(words) else settings.get("mmproj")
    if "completion" not in model["capabilities"] or (not named and not left_out):
        return dict(model)
    found = () if left_out else _senses_in(str(named))
    able = [one for one in model["capabilities"] if one not in SENSES]
    blind = {"blind": left_out} if left_out and (own or settings.get("mmproj")) else {}
    return {**model, "capabilities": [*able, *found], **blind}


def _senses_in(path: str) -> tuple[str, ...]:
    """What a projector takes; of one that cannot be read, its load will tell."""
    try:
        return senses_of(read_header(Path(path)))
    except (ModelFileRefused, OSError):
        return ("vision",)
