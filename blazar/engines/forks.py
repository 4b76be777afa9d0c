"""Fork lanes: engine builds for architectures that the main engine lacks; which serves what, and until when. Pure.

A lane's build has the tag `fork-<name>`. It serves its own architectures only, and only until the main build in use
knows them. One of the catalog is removed some days after the main engine in use can do all that it does; one that a
person made here never is.
"""

import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from blazar.engines.builds import Build
from blazar.engines.install.release import build_number
from blazar.engines.routing import KIND

FORKS = "llamacpp-fork"
"""The kind of such builds: several lie beside the main one, and none is in use for anything else."""

DAY = 86400.0


@dataclass(frozen=True)
class Fork:
    """An installed lane, as retiring sees it; `since` is in seconds of the Unix clock, None = not superseded yet."""

    name: str
    curated: bool
    pinned: bool
    architectures: Sequence[str]
    superseded: Mapping[str, int]
    since: float | None

    def is_superseded(self, main: int | None) -> bool:
        """Whether the main engine's build of that number knows all its architectures."""
        return main is not None and all(main >= self.superseded.get(word, main + 1) for word in self.architectures)


@dataclass(frozen=True)
class Retiring:
    """What becomes of one lane: `mark` it as superseded from now on, `unmark` it, or `remove` its build."""

    name: str
    step: str


def decide(now: float, forks: Iterable[Fork], main: int | None, days: int) -> list[Retiring]:
    """Pure. `main` is the number of the main build in use, None = unknown; `days` of 0 remove nothing."""
    steps = []
    for fork in forks:
        if not fork.curated:
            continue
        if not fork.is_superseded(main):
            if fork.since is not None:
                steps.append(Retiring(fork.name, "unmark"))
        elif fork.since is None:
            steps.append(Retiring(fork.name, "mark"))
        elif days and not fork.pinned and now - fork.since >= days * DAY:
            steps.append(Retiring(fork.name, "remove"))
    return steps


def tag_of(name: str) -> str:
    return f"fork-{name}"


def choose(architecture: str, pin: str | None, rows: Iterable[Mapping[str, Any]],
           builds: Sequence[Build]) -> Build | None:
    """The fork that has to serve a model of that architecture; None leaves it to the main engine.

    `pin` is the tag that the model is bound to; `builds` are all installed ones.
    """
    forks = {build.tag: build for build in builds if build.kind == FORKS}
    if pin in forks:
        return forks[pin]
    if pin is not None and pin != KIND:
        return None
    main = main_number(builds)
    for row in rows:
        build = forks.get(tag_of(row["name"]))
        known_since = row["superseded"].get(architecture)
        if build and architecture in row["architectures"] and not (main and known_since and main >= known_since):
            return build
    return None


def offered(architecture: str, rows: Iterable[Mapping[str, Any]]) -> str | None:
    """The name of a lane of the catalog whose engine knows that architecture and runs on this kind of machine."""
    here = platform.machine()
    return next((row["name"] for row in rows if row["offered"] and architecture in row["architectures"]
                 and any(asset["machine"] == here for asset in row["assets"])), None)


def main_number(builds: Iterable[Build]) -> int | None:
    """The number of the main build in use."""
    active = next((build for build in builds if build.kind == KIND and build.active), None)
    return build_number(active.tag) if active else None
