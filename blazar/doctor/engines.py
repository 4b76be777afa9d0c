"""Is there a program that can serve a model, and do the models' own choices name one?"""

import os

from blazar.doctor.check import Finding, Surroundings
from blazar.engines.builds import Build, Builds
from blazar.engines.forks import FORKS
from blazar.engines.program import EMBEDDED_FLAVOUR
from blazar.engines.routing import Routing, find_program
from blazar.errors import BlazarError, ConfigRefused, LoadFailed

LOOK = "`blazar engine list` shows the builds that are here, `blazar engine update` gets the newest"
LATER = ("sglang", "mlx", "mistralrs", "whisper", "sdcpp")
"""Lanes that have settings and no engine yet."""


def check_engine(surroundings: Surroundings) -> Finding:
    engine_path = surroundings.env.get("BLAZAR_ENGINE_PATH") or None
    mode, pins = _configured(surroundings)
    try:
        builds = Builds(surroundings.located.paths).every()
        program = find_program("a model", engine_path, surroundings.env, builds, Routing(mode=mode))
        for model, pin in pins.items():
            find_program(model, engine_path, surroundings.env, builds, Routing(pin, mode))
    except LoadFailed as missing:
        found, _, remedy = str(missing).removeprefix("no engine can serve a model: ").partition("; ")
        return Finding("engine", "fail", found, remedy or LOOK)
    except BlazarError as refused:
        return Finding("engine", "fail", str(refused), LOOK)
    return Finding("engine", "ok", f"{program.kind}: {_where(program.source, program.argv[0], builds)}")


def check_lanes(surroundings: Surroundings) -> Finding:
    """What serves models besides: builds for architectures that the main engine lacks."""
    try:
        forks = [build for build in Builds(surroundings.located.paths).every() if build.kind == FORKS]
    except BlazarError as refused:
        return Finding("lanes", "fail", str(refused), "`blazar engine list` looks again")
    for build in forks:
        if not os.access(build.path, os.X_OK):
            return Finding("lanes", "warn", f"{build.tag} has lost its program {build.path}",
                           f"`blazar engine remove {build.tag}`, then `blazar engine lane NAME` gets it anew")
    named = ", ".join(["llamacpp", *(build.tag for build in forks)])
    return Finding("lanes", "ok", f"{named}; not in this version: {', '.join(LATER)}")


def _configured(surroundings: Surroundings) -> tuple[str, dict[str, str]]:
    """The mode of [engine_routing], and the pins by model; the defaults while the configuration is refused."""
    try:
        config = surroundings.config
    except ConfigRefused:
        return "auto", {}
    pins = {model: entry.get("engine") for model, entry in config.model_overrides.items()}
    return config.engine_routing["mode"], {model: pin for model, pin in pins.items() if pin}


def _where(source: str, path: str, builds: list[Build]) -> str:
    if source == EMBEDDED_FLAVOUR:
        return "embedded (xllamacpp)"
    if any(build.tag == source for build in builds):
        return f"the build {source}, {path}"
    return f"{path}, by {source}"
