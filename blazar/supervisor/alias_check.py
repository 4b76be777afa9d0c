"""Whether the [[alias]] entries of the configuration go with what is installed."""

import logging
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from blazar.errors import BlazarError, ConfigRefused
from blazar.store.name import parse
from blazar.store.resolve import resolve

log = logging.getLogger(__name__)


def refuse_shadows(entries: Iterable[Mapping[str, Any]], installed: Collection[str],
                   aliases: Mapping[str, str]) -> None:
    """At boot: raises ConfigRefused for an alias whose name means something in the store already."""
    for entry in entries:
        hidden = shadowed(entry["name"], installed, aliases)
        if hidden:
            raise ConfigRefused(where=f'[[alias]] name = "{entry["name"]}"', problem=f"it would hide {hidden}",
                                remedy="give the alias another name, or take that one out with `blazar rm`")


def warn(entries: Iterable[Mapping[str, Any]], installed: Collection[str], aliases: Mapping[str, str],
         told: set[str]) -> None:
    """Log what is wrong with aliases now; `told` keeps what has been said."""
    for entry in entries:
        for problem in _problems(entry, installed, aliases):
            if problem not in told:
                told.add(problem)
                log.warning("%s", problem)


def shadowed(name: str, installed: Collection[str], aliases: Mapping[str, str]) -> str:
    """What in the store has this name, or is meant by it without its variant; '' for nothing."""
    canonical = str(parse(name))
    for model in sorted(installed):
        if canonical in (model, model.partition(":")[0]):
            return f"the installed model {model}"
    return f"the alias of {aliases[canonical]} that the store has" if canonical in aliases else ""


def _problems(entry: Mapping[str, Any], installed: Collection[str], aliases: Mapping[str, str]) -> Iterable[str]:
    name = entry["name"]
    hidden = shadowed(name, installed, aliases)
    if hidden:
        yield f"[[alias]] {name} has the name of {hidden}; rename one of them: Blazar will not start with both"
    try:
        resolve(entry["model"], installed, aliases)
    except BlazarError as error:
        yield f"[[alias]] {name} has no model: {error}"
