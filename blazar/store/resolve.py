"""From what a client typed to the one installed model it means. Pure, and shared by every process."""

import difflib
from collections.abc import Collection, Iterable, Mapping

from blazar.errors import ModelAmbiguous, ModelNotFound
from blazar.store.name import Name, parse


def resolve(reference: str, installed: Collection[str], aliases: Mapping[str, str]) -> str:
    """The canonical name of the installed model that `reference` means.

    In this order: the very name; the name in lower case; an alias; without a variant (or with `latest`), the only
    variant installed. A variant that is not installed is never answered with another one. `installed` holds
    canonical names, a set or a dict when speed matters. Raises NameRefused, ModelNotFound or ModelAmbiguous.
    """
    if reference in installed:
        return reference
    name = parse(reference)
    canonical = str(name)
    if canonical in installed:
        return canonical
    target = aliases.get(canonical)
    if target is not None and target in installed:
        return target
    if name.is_implied:
        variants = sorted(other for other in installed if other.partition(":")[0] == name.model)
        if len(variants) == 1:
            return variants[0]
        if variants:
            raise ModelAmbiguous(name=reference, candidates=", ".join(variants))
    living = [alias for alias, target in aliases.items() if target in installed]
    raise ModelNotFound(name=reference, near=_near(name, [*installed, *living]))


def is_alias(reference: str, installed: Collection[str], aliases: Mapping[str, str]) -> bool:
    """Whether `reference` is an alias itself, and no model's name."""
    name = str(parse(reference))
    return name in aliases and name not in installed


def _near(name: Name, known: Iterable[str]) -> str:
    """'; did you mean …?' with at most three names of this model or of models spelled much like it, or nothing."""
    by_model: dict[str, list[str]] = {}
    for other in sorted(known):
        by_model.setdefault(other.partition(":")[0], []).append(other)
    models = difflib.get_close_matches(name.model, by_model, n=3)
    names = [other for model in models for other in by_model[model]][:3]
    return f"; did you mean {' or '.join(names)}?" if names else ""
