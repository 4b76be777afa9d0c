"""The flags of speculative decoding for the llama.cpp lane.

`spec` names a family, and each family has a type of llama.cpp's; which of them a build has, its help text lists. What
`spec = "auto"` comes to is decided by the plan: without one it asks for nothing.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from blazar.engines.flags import Gate
from blazar.engines.lane import Launch
from blazar.engines.manifest import Manifest
from blazar.planner.speculation import DRAFTED, TYPES

NEED_DRAFT = frozenset({"draft", "eagle3", "dflash", "dspark"})
"""Families that do nothing without a file of their own; the heads of mtp lie in the model's."""
DRAFT_FLAGS = ("--spec-draft-model", "--model-draft")
"""How builds call the flag for that file, the newest first."""
SIZED = frozenset({"ngram-simple", "ngram-map-k", "ngram-map-k4v"})
"""Types with a length of n-gram, of draft, and a number of hits."""
SIZES = {"ngram_size_n": "size-n", "ngram_size_m": "size-m", "ngram_min_hits": "min-hits"}
"""By setting, how the flags of such a type end."""
TYPE, LOOKUP_CACHE = "--spec-type", "--lookup-cache-dynamic"


def types_of(manifest: Manifest) -> tuple[str, ...] | None:
    """The types of speculation that a build offers; None when it does not tell its flags."""
    if not manifest.flags:
        return None
    return tuple(manifest.flags[TYPE].choices) if TYPE in manifest.flags else ()


def argv(launch: Launch, gate: Gate) -> list[str]:
    settings = launch.settings
    family = settings.get("spec") or "auto"
    given = {"ngram_size_n": settings.get("ngram_size_n"), "ngram_size_m": settings.get("ngram_size_m"),
             "ngram_min_hits": settings.get("ngram_min_hits")}
    sizes = {name: value for name, value in given.items() if value}
    if family in ("auto", "off"):
        return _unused(sizes, family, gate)
    draft = _draft(launch.companions)
    if family in NEED_DRAFT and draft is None:
        gate.skipped.append(f'spec = "{family}" has no effect: there is no draft beside the model')
        return []
    kind = TYPES.get(family, family)
    words = [] if family == "draft" and not gate.manifest.has(TYPE) else gate.may("spec", TYPE, kind)
    if not words and family != "draft":
        return []
    if draft is not None and kind.startswith("draft-"):
        words += gate.must("the model's draft", _draft_flag(gate.manifest), str(draft))
    if family == "mtp-adaptive":
        words += gate.may("spec", "--spec-draft-n-max", str(DRAFTED[family]))
    return words + _lookup(launch, kind, sizes, family, gate)


def _lookup(launch: Launch, kind: str, sizes: Mapping[str, int], family: str, gate: Gate) -> list[str]:
    """What belongs to looking drafts up: the file of n-grams, where the engine takes one, and sizes."""
    words: list[str] = []
    if kind.startswith("ngram") and launch.lookup_cache is not None and gate.manifest.has(LOOKUP_CACHE):
        words += gate.may("spec_cache", LOOKUP_CACHE, str(launch.lookup_cache), yields=True)
    if kind not in SIZED:
        return words + _unused(sizes, family, gate)
    for name, value in sizes.items():
        words += gate.may(name, f"--spec-{kind}-{SIZES[name]}", str(value))
    return words


def _draft(companions: Sequence[tuple[str, Path]]) -> Path | None:
    return next((path for role, path in companions if role == "draft"), None)


def _draft_flag(manifest: Manifest) -> str:
    return next((flag for flag in DRAFT_FLAGS if manifest.has(flag)), DRAFT_FLAGS[0])


def _unused(sizes: Mapping[str, int], family: str, gate: Gate) -> list[str]:
    gate.skipped += [f'{name} has no effect with spec = "{family}"' for name in sizes]
    return []
