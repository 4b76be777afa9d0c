"""The projector of a model, with which it sees or hears: which file it is, and whether a child is loaded with it.

`mmproj_policy` says when: `attach` with the model, `lazy` (also unset) from the first request that shows it something,
`skip` never. A flag among `extra_args` is a person's own word and wins over all of it.
"""

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

FLAGS = frozenset({"-mm", "--mmproj", "-mmu", "--mmproj-url"})
"""The engine's flags that give it a projector."""
NONE_FLAGS = frozenset({"--no-mmproj", "--no-mmproj-auto"})


def for_load(settings: Mapping[str, Any], shown: bool) -> Mapping[str, Any]:
    """The settings of a load: with "lazy" a child that was `shown` nothing is loaded as if the policy were "skip"."""
    if shown or (settings.get("mmproj_policy") or "lazy") != "lazy":
        return settings
    return MappingProxyType({**settings, "mmproj_policy": "skip"})


def chosen(settings: Mapping[str, Any], beside: str | None) -> str | None:
    """The projector that is loaded with such settings, where the file `beside` came with the model; None for none."""
    words = settings.get("extra_args") or ()
    if has_flag(words):
        return by_hand(words)
    if settings.get("mmproj_policy") == "skip" or any(word in NONE_FLAGS for word in words):
        return None
    return settings.get("mmproj") or (beside if settings.get("mmproj_auto", True) else None)


def why_left_out(settings: Mapping[str, Any]) -> str:
    """The setting that keeps a projector from ever being loaded; empty when none does."""
    words = settings.get("extra_args") or ()
    if has_flag(words):
        return ""
    if settings.get("mmproj_policy") == "skip":
        return 'mmproj_policy = "skip"'
    if any(word in NONE_FLAGS for word in words):
        return "extra_args"
    return "" if settings.get("mmproj") or settings.get("mmproj_auto", True) else "mmproj_auto = false"


def has_flag(words: Sequence[str]) -> bool:
    """Whether a command line gives the engine a projector."""
    return any(word.partition("=")[0] in FLAGS for word in words)


def by_hand(words: Sequence[str]) -> str:
    """The file, or the URL, that a command line names as projector; empty when it names none."""
    for place, word in enumerate(words):
        flag, glued, value = word.partition("=")
        if flag in FLAGS:
            return value if glued else next(iter(words[place + 1:]), "")
    return ""
