"""Why a load failed, in words that say what to do: what the engine printed last is looked at."""

import re

from blazar.engines.lane import Launch
from blazar.errors import ArchitectureUnknown, LoadFailed
from blazar.supervisor.health import quote_output
from blazar.supervisor.spawn import LAST_LINES, Process

UNKNOWN = re.compile(r"unknown model architecture: '([^']{1,64})'")
"""How llama.cpp says that it is too old, or never learnt to read this."""


def load_failure(launch: Launch, fork: str | None, process: Process) -> LoadFailed:
    """The error for a child that has ended by itself; `fork` is a lane that could serve the model, None = none."""
    found = UNKNOWN.search("\n".join(process.last_lines(LAST_LINES)))
    if found is None:
        return LoadFailed(model=launch.model, reason=process.describe_exit(), output=quote_output(process))
    remedy = (f"`blazar engine lane {fork}` installs an engine that does" if fork else
              "`blazar engine update` may bring one that does, and `blazar engine lane` lists engines for single "
              "architectures")
    return ArchitectureUnknown(model=launch.model, architecture=found[1], remedy=remedy)
