"""Is there a program that can serve a model, and do the models' own choices name one?"""

from blazar.doctor.check import Finding, Surroundings
from blazar.engines.builds import Build, Builds
from blazar.engines.program import EMBEDDED_FLAVOUR
from blazar.engines.routing import Routing, find_program
from blazar.errors import BlazarError, ConfigRefused, LoadFailed


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
        return Finding("engine", "fail", found, remedy)
    except BlazarError as refused:
        return Finding("engine", "fail", str(refused))
    return Finding("engine", "ok", f"{program.kind}: {_where(program.source, program.argv[0], builds)}")


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
