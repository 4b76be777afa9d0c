"""Is the configuration accepted?"""

from blazar.doctor.check import Finding, Surroundings
from blazar.errors import ConfigRefused


def check_config(surroundings: Surroundings) -> Finding:
    file = surroundings.located.config_file
    try:
        _ = surroundings.config
    except ConfigRefused as refused:
        return Finding("config", "fail", str(refused), "mend it; `blazar config check` looks again")
    if surroundings.located.warnings:
        return Finding("config", "warn", "; ".join(surroundings.located.warnings))
    found = str(file) if file.exists() else f"{file} is not there; every setting is at its default"
    return Finding("config", "ok", found)
