"""Which family of speculation a model is loaded with: the one that was set, or what `spec = "auto"` finds. Pure.

A draft model is taken when the pair is here, both speak of the same tokens, and the model loses nothing by the room
that the draft takes. Else drafts are looked up in the text so far, which takes no second model.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blazar.planner.plan import Line
from blazar.store.shape import Shape

SIZES = ("ngram_size_n", "ngram_size_m", "ngram_min_hits")
LOOKUPS = ("ngram-mod", "ngram-simple", "ngram-map-k", "ngram-map-k4v", "ngram-cache")
"""Ways to look drafts up, the preferred first. The first is llama.cpp's own default configuration: it drafts long
repeats only, and so costs least where there are none."""
DRAFTED = {"ngram-mod": 64, "ngram": 48, "ngram-simple": 48, "ngram-map-k": 48, "ngram-map-k4v": 48, "ngram-cache": 8,
           "draft": 3, "mtp": 3, "mtp-adaptive": 8, "eagle3": 3, "dflash": 3, "dspark": 3}
"""Tokens that llama.cpp verifies at once at most, by family."""
TYPES = {"draft": "draft-simple", "mtp": "draft-mtp", "mtp-adaptive": "draft-mtp-adaptive", "eagle3": "draft-eagle3",
         "dflash": "draft-dflash", "dspark": "draft-dspark", "ngram": "ngram-simple"}
"""llama.cpp's names of families; those of the others are the same."""
OWN = frozenset({"--spec-type", "--spec-default", "--spec-draft-model", "-md", "--model-draft", "--spec-draft-hf",
                 "-hfd", "-hfrd", "--hf-repo-draft"})
"""Flags by which a person chooses speculation in `extra_args`."""
Fits = Callable[[str, "Candidate | None"], bool]
"""Whether a family, with its draft if it has one, costs the model nothing of what it would be without."""
OFF_SWITCH = 'spec = "off"'


@dataclass(frozen=True)
class Candidate:
    """A draft that might be used; without a file, `why` there is none."""

    path: Path | None = None
    name: str = ""
    why: str = ""
    shape: Shape | None = None
    family: str = "draft"


@dataclass(frozen=True)
class Speculation:
    """What was chosen."""

    family: str
    value: str
    """In words."""
    reason: str
    draft: Candidate | None = None
    notice: str = ""
    """A sentence for the log, where a draft was wanted and something else is done."""

    def line(self) -> Line:
        return Line("speculation", self.value, self.reason, "spec, spec_auto_ngram")


def choose(settings: Mapping[str, Any], candidate: Candidate, types: Sequence[str] | None,
           fits: Fits, heads: int = 0) -> Speculation:
    """`types` are those that the engine offers, None = not known; `heads` are the layers of the model that draft."""
    family = settings.get("spec") or "auto"
    if family.startswith("mtp") and not heads and candidate.path is None:
        lack = f'spec = "{family}" has no effect: the model has no layers for it'
        return Speculation("off", "off", lack, notice=lack)
    if family != "auto":
        return Speculation(family, family, "as it was set", candidate if candidate.path else None)
    if any(word.partition("=")[0] in OWN for word in settings.get("extra_args") or ()):
        return Speculation("off", "as extra_args say", "flags of one's own come first")
    if settings.get("deterministic"):
        return Speculation("off", "off", "deterministic: what is drafted depends on what was said before")
    why = _why_no_draft(candidate, types, fits)
    if not why:
        return Speculation(candidate.family, f"draft model {candidate.name}",
                           "it is here, fits, and has the same tokens", candidate)
    lookup = _lookup(settings, types, fits)
    if not settings.get("spec_auto_ngram", True):
        return Speculation("off", "off", f"{why}; spec_auto_ngram is off")
    if lookup is None:
        return Speculation("off", "off", f"{why}; the engine looks nothing up, or has no room for it")
    return Speculation(lookup, f"looked up in the text so far ({lookup})", why, notice=(
        f"tokens are guessed from the text so far ({lookup}), since {why}; spec_auto_ngram = false or {OFF_SWITCH} "
        f"turns that off"))


def drafted(settings: Mapping[str, Any]) -> int:
    """Tokens that are verified in one pass besides the one that is written."""
    family = settings.get("spec") or "auto"
    if family == "ngram-mod":
        return settings.get("ngram_mod_n_max") or DRAFTED[family]
    if family.startswith("ngram") and family != "ngram-cache":
        return settings.get("ngram_size_m") or DRAFTED[family]
    return DRAFTED.get(family, 0)


def _why_no_draft(candidate: Candidate, types: Sequence[str] | None, fits: Fits) -> str:
    if candidate.path is None or candidate.why:
        return candidate.why
    kind = TYPES[candidate.family]
    if types is not None and kind not in types and (types or candidate.family != "draft"):
        return f"the engine does not offer {kind}"
    fit = fits(candidate.family, candidate)
    return "" if fit else f"its draft {candidate.name} would take room that the model needs"


def _lookup(settings: Mapping[str, Any], types: Sequence[str] | None, fits: Fits) -> str | None:
    """The way to look drafts up: one that the sizes in the settings are meant for, where there are any."""
    sized = any(settings.get(name) for name in SIZES)
    order = sorted(LOOKUPS, key=lambda name: name != "ngram-simple") if sized else LOOKUPS
    return next((name for name in order if (types is None or name in types) and fits(name, None)), None)
