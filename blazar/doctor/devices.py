"""By which names do settings such as `devices` call the devices of this machine?"""

from blazar.doctor.check import Finding, Surroundings
from blazar.engines.builds import Builds
from blazar.engines.devices import devices_of
from blazar.engines.lane import engine_environment
from blazar.engines.manifest import manifest_of
from blazar.engines.routing import Routing, find_program
from blazar.errors import BlazarError


def check_devices(surroundings: Surroundings) -> Finding:
    paths, env = surroundings.located.paths, surroundings.env
    try:
        config = surroundings.config
        program = find_program("a model", env.get("BLAZAR_ENGINE_PATH") or None, env, Builds(paths).every(),
                               Routing(mode=config.engine_routing["mode"]))
    except BlazarError:  # told by the checks of the configuration and of the engine
        return Finding("devices", "ok", "no engine that could be asked")
    extra = engine_environment(config.as_dict())
    found = devices_of(program, manifest_of(program, paths.manifests, env, extra), env, extra)
    if found is None:
        return Finding("devices", "ok", "this engine does not name them")
    return Finding("devices", "ok", ", ".join(f"{name} ({what})" for name, what in found.items())
                   or "the engine computes on the CPU only")
