"""The regression gate: a new build must write about as fast as the one in use, on a model of this machine."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from blazar.engines.builds import Build
from blazar.engines.install.speed import Fault, decode_rate, starts
from blazar.engines.program import Program
from blazar.errors import BuildRefused

CLOSE = 0.5
"""A build that reaches this share of what it must reach is measured a second time."""


@dataclass(frozen=True)
class Model:
    """The model that is measured with."""

    name: str
    file: Path


@dataclass(frozen=True)
class Speeds:
    """Tokens a second; None for what was not measured."""

    old: float | None = None
    new: float | None = None


def judge(new: Build, old: Build | None, model: Model | None, share: float, env: Mapping[str, str],
          say: Callable[[str], None]) -> Speeds:
    """Let `new` through, with what was measured, or raise BuildRefused. A `share` of 0 compares nothing."""
    stays = f"{old.tag} stays in use" if old else "nothing is in use"
    must_start(new.program, new.tag, env, f"{stays}; `blazar engine remove {new.tag}` deletes it")
    if share <= 0:
        say("its speed is not compared: BLAZAR_ENGINE_GATE is off")
        return Speeds()
    if old is None or model is None:
        say("its speed is not compared: " + ("there is no model to measure with" if old else "no build was in use"))
        return Speeds()
    say(f"comparing {new.tag} with {old.tag}, which is in use, on {model.name}")
    try:
        before = decode_rate(old.program, model.file, env)
    except Fault as error:
        say(f"its speed is not compared: {old.tag} does not run {model.name} now: {error}")
        return Speeds()
    after = _measured(new, model, env, stays)
    if CLOSE * share * before < after < share * before:  # once more, lest a moment of load on the machine decides
        before = max(before, _rate(old, model, env) or 0.0)
        after = max(after, _measured(new, model, env, stays))
    figures = f"{new.tag} writes {after:.1f} tokens/s and {old.tag} {before:.1f} with {model.name}"
    if after < share * before:
        raise BuildRefused(tag=new.tag, reason=f"{figures}, and it must reach {share:.0%} of that",
                           remedy=f"{stays}; `blazar engine use {new.tag}` takes it all the same")
    say(figures)
    return Speeds(before, after)


def must_start(program: Program, tag: str, env: Mapping[str, str], remedy: str = "nothing was changed") -> None:
    """Raise BuildRefused, with the program's own words, unless it runs on this machine at all."""
    try:
        starts(program, env)
    except Fault as error:
        raise BuildRefused(tag=tag, reason=f"it does not start on this machine: {error}",
                           remedy=remedy) from error


def _rate(build: Build, model: Model, env: Mapping[str, str]) -> float | None:
    try:
        return decode_rate(build.program, model.file, env)
    except Fault:
        return None


def _measured(new: Build, model: Model, env: Mapping[str, str], stays: str) -> float:
    try:
        return decode_rate(new.program, model.file, env)
    except Fault as error:
        raise BuildRefused(tag=new.tag, reason=f"it does not run {model.name}: {error}",
                           remedy=f"{stays}; `blazar engine remove {new.tag}` deletes it") from error
