"""Which engine program serves a model.

A pin of the model comes first, then BLAZAR_ENGINE_PATH, then the installed builds, then PATH, then the embedded engine.
Of several builds `manual` takes the active one, always; `auto` may take another, when both were measured and it was
better.
"""

import importlib.util
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blazar.engines.builds import Build, listed
from blazar.engines.program import EMBEDDED_FLAVOUR, EMBEDDED_MODULE, Program
from blazar.errors import EngineGone, EngineMissing, EnginePinUnknown

KIND = "llamacpp"
LLAMA_SERVER = "llama-server"
LOCAL, ON_PATH = "local", "path"
"""What a pin calls the program of BLAZAR_ENGINE_PATH and the one on PATH."""
EMBEDDED = (sys.executable, *EMBEDDED_MODULE)


@dataclass(frozen=True)
class Rates:
    """Tokens a second that a build has reached with a model."""

    prompt: float = 0.0
    decode: float = 0.0


def rates_of(rows: Iterable[Mapping[str, Any]]) -> dict[str, Rates]:
    """Rates by tag out of `measurement` rows of one model, the newest first: of each build the last figures count."""
    last: dict[tuple[str, str], float] = {}
    for row in rows:
        last.setdefault((row["engine"], row["task"]), row["rate"])
    return {tag: Rates(last.get((tag, "prompt"), 0.0), last.get((tag, "generate"), 0.0)) for tag, _ in last}


@dataclass(frozen=True)
class Routing:
    """What is configured, and what is known, for one model."""

    pin: str | None = None
    """The tag of a build, or a kind of engine."""
    mode: str = "auto"
    policy: str | None = None
    rates: Mapping[str, Rates] = field(default_factory=dict)
    """By tag; only of builds that were measured with this model."""


def find_program(model: str, engine_path: str | None, env: Mapping[str, str] = os.environ,
                 builds: Sequence[Build] = (), routing: Routing = Routing()) -> Program:
    """The llama.cpp program to use; `engine_path` is BLAZAR_ENGINE_PATH, a file or a folder that holds llama-server.

    What was chosen by name is never passed over: when it cannot run this raises EngineMissing, EngineGone or
    EnginePinUnknown, since another engine would hide the mistake.
    """
    if routing.pin and routing.pin != KIND:
        return _pinned(model, routing.pin, engine_path, env, builds)
    if engine_path:
        return _named(model, engine_path)
    build = _chosen(builds, routing)
    if build is not None:
        return _runnable(model, build)
    found = _on_path(env) or _embedded()
    if found is None:
        raise EngineMissing(model=model, reason="no build is installed, there is no llama-server on PATH, and no "
                                                "embedded engine")
    return found


def others(engine_path: str | None, env: Mapping[str, str] = os.environ) -> list[Program]:
    """The programs here that are no installed builds. Raises EngineMissing when `engine_path` is wrong."""
    named = _named("a model", engine_path) if engine_path else None
    return [program for program in (named, _on_path(env), _embedded()) if program is not None]


def _pinned(model: str, pin: str, engine_path: str | None, env: Mapping[str, str],
            builds: Sequence[Build]) -> Program:
    for build in builds:
        if build.tag == pin:
            return _runnable(model, build)
    outside = others(engine_path, env)
    for program in outside:
        if program.tag == pin:
            return program
    raise EnginePinUnknown(model=model, pin=pin, known=listed([*(build.tag for build in builds),
                                                               *(program.tag for program in outside)]))


def _chosen(builds: Sequence[Build], routing: Routing) -> Build | None:
    """The build for a model that is not pinned, which no fork is."""
    builds = [build for build in builds if build.kind == KIND]
    active = next((build for build in builds if build.active), None)
    if routing.mode == "manual":
        return active
    present = [build for build in builds if _fault(build.path) == ""]
    measured = [build for build in present if _rate(build, routing) > 0]
    if measured and (active is None or active in measured):
        return max(measured, key=lambda build: (_rate(build, routing), build.active, build.installed_at))
    return active or max(present, key=lambda build: build.installed_at, default=None)


def _rate(build: Build, routing: Routing) -> float:
    """What the policy goes by; 0 when it goes by no measurement, or there is none."""
    rates = routing.rates.get(build.tag, Rates())
    return {"latency": rates.prompt, "throughput": rates.decode}.get(routing.policy or "", 0.0)


def _runnable(model: str, build: Build) -> Program:
    fault = _fault(build.path)
    if fault:
        raise EngineGone(model=model, tag=build.tag, reason=fault)
    return build.program


def _fault(program: Path) -> str:
    """Why `program` cannot be run; empty when it can."""
    if not program.is_file():
        return f"{program} is not a file"
    return "" if os.access(program, os.X_OK) else f"{program} is not executable"


def _named(model: str, engine_path: str) -> Program:
    path = Path(engine_path).expanduser()
    program = path / LLAMA_SERVER if path.is_dir() else path
    fault = _fault(program)
    if fault:
        raise EngineMissing(model=model, reason=f"BLAZAR_ENGINE_PATH is {engine_path}, and {fault}")
    return Program(KIND, (str(program.absolute()),), "BLAZAR_ENGINE_PATH", tag=LOCAL)


def _on_path(env: Mapping[str, str]) -> Program | None:
    found = shutil.which(LLAMA_SERVER, path=env.get("PATH"))
    return Program(KIND, (found,), "PATH", tag=ON_PATH) if found else None


def _embedded() -> Program | None:
    if importlib.util.find_spec("xllamacpp") is None:
        return None
    return Program(KIND, EMBEDDED, EMBEDDED_FLAVOUR, tag=EMBEDDED_FLAVOUR)
