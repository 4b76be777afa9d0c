"""From what a client typed to the one installed model it means. Pure, and shared by every process."""

import difflib
from collections.abc import Collection, Mapping

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
    variants = sorted(other for other in installed if other.partition(":")[0] == name.model)
    if name.is_implied and len(variants) == 1:
        return variants[0]
    if name.is_implied and variants:
        raise ModelAmbiguous(name=reference, candidates=", ".join(variants))
    raise ModelNotFound(name=reference, near=_near(name, variants, [*installed, *aliases]))


def _near(name: Name, variants: list[str], known: list[str]) -> str:
    """', did you mean …' with at most three names, or nothing."""
    close = difflib.get_close_matches(str(name), known, n=3)
    close += [other for other in known if not close and other.partition(":")[0] in
              difflib.get_close_matches(name.model, [other.partition(":")[0]], n=1)]
    names = list(dict.fromkeys([*variants, *close]))[:3]
    return f", did you mean {' or '.join(names)}" if names else ""
