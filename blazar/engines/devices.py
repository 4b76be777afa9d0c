"""The devices on which an engine computes, by the names that `devices` and `--device` take."""

import re
from collections.abc import Mapping

from blazar.engines import asking
from blazar.engines.manifest import Manifest
from blazar.engines.program import Program

FLAG = "--list-devices"
_DEVICE = re.compile(r"^\s+([A-Za-z][\w-]*): (.+?)(?: \(\d+ MiB[^()]*\))?$", re.MULTILINE)


def devices_of(program: Program, manifest: Manifest, env: Mapping[str, str],
               extra: Mapping[str, str]) -> dict[str, str] | None:
    """What each device is, by its name in this engine; None when the engine does not tell. `extra` is environment that
    it is started with."""
    if FLAG not in manifest.flags:
        return None
    try:
        _, told, listed = asking.ask((*program.argv, FLAG), env, extra).partition("Available devices:")
    except OSError:  # TimeoutError is one
        return None
    return {name: what.strip() for name, what in _DEVICE.findall(listed)} if told else None
