"""The flags of speculative decoding for the llama.cpp lane.

`spec` names a family, and each family has a type of llama.cpp's; which of them a build has, its help text lists.
`spec = "auto"` asks for nothing by itself.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from blazar.engines.flags import Gate

TYPES = {"mtp": "draft-mtp", "mtp-adaptive": "draft-mtp-adaptive", "eagle3": "draft-eagle3", "dflash": "draft-dflash",
         "dspark": "draft-dspark", "ngram": "ngram-simple"}
"""llama.cpp's names; those of the other families are the same."""
NEED_DRAFT = frozenset({"eagle3", "dflash", "dspark"})
"""Families that do nothing without a file of their own; the heads of mtp lie in the model's."""
SIZED = frozenset({"ngram-simple", "ngram-map-k", "ngram-map-k4v"})
"""Types with a length of n-gram, of draft, and a number of hits."""
SIZES = {"ngram_size_n": "size-n", "ngram_size_m": "size-m", "ngram_min_hits": "min-hits"}
"""By setting, how the flags of such a type end."""


def argv(settings: Mapping[str, Any], companions: Sequence[tuple[str, Path]], gate: Gate) -> list[str]:
    family = settings.get("spec") or "auto"
    given = {"ngram_size_n": settings.get("ngram_size_n"), "ngram_size_m": settings.get("ngram_size_m"),
             "ngram_min_hits": settings.get("ngram_min_hits")}
    sizes = {name: value for name, value in given.items() if value}
    if family in ("auto", "off"):
        return _unused(sizes, family, gate)
    draft = next((path for role, path in companions if role == "draft"), None)
    if family in NEED_DRAFT and draft is None:
        gate.skipped.append(f'spec = "{family}" has no effect: there is no draft beside the model')
        return []
    kind = TYPES.get(family, family)
    words = gate.may("spec", "--spec-type", kind)
    if not words:
        return []
    if draft is not None and kind.startswith("draft-"):
        words += gate.must("the model's draft", "--spec-draft-model", str(draft))
    if kind not in SIZED:
        return words + _unused(sizes, family, gate)
    for name, value in sizes.items():
        words += gate.may(name, f"--spec-{kind}-{SIZES[name]}", str(value))
    return words


def _unused(sizes: Mapping[str, int], family: str, gate: Gate) -> list[str]:
    gate.skipped += [f'{name} has no effect with spec = "{family}"' for name in sizes]
    return []
