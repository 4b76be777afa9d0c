"""The engines that the sub-verbs speak of: installed builds, and the programs beside them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from blazar.cli.context import Context
from blazar.engines.builds import Builds, listed
from blazar.engines.program import EMBEDDED_FLAVOUR, Program
from blazar.engines.routing import others
from blazar.errors import BuildNotFound, EngineMissing


@dataclass(frozen=True)
class Found:
    """One engine: how it runs, and what is known of it as plain values."""

    program: Program
    facts: Mapping[str, Any]


def every(context: Context) -> list[Found]:
    """Installed builds by tag, then what else could serve a model, in the order in which it would be chosen."""
    builds = [Found(build.program, build.to_dict()) for build in Builds(context.located.paths).every()]
    return [*builds, *(Found(program, _facts(program)) for program in _outside(context))]


def find(context: Context, tag: str) -> Found:
    """The engine of that tag. Raises BuildNotFound, which names those that are here."""
    here = every(context)
    for one in here:
        if one.program.tag == tag:
            return one
    raise BuildNotFound(tag=tag, known=listed([one.program.tag for one in here]))


def _outside(context: Context) -> list[Program]:
    try:
        return others(context.env.get("BLAZAR_ENGINE_PATH") or None, context.env)
    except EngineMissing as missing:
        context.out.note(str(missing))
        return others(None, context.env)


def _facts(program: Program) -> dict[str, Any]:
    """As `Build.to_dict` has them, for a program that no row tells of."""
    flavour = EMBEDDED_FLAVOUR if program.source == EMBEDDED_FLAVOUR else None
    return {"tag": program.tag, "kind": program.kind, "flavour": flavour, "active": False, "pinned": False,
            "path": program.argv[0], "source": program.source, "sha256": None, "installed_at": None}
