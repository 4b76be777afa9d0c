"""Is the configuration accepted?"""

from blazar.doctor.check import Finding, Surroundings
from blazar.errors import ConfigRefused


def check_config(surroundings: Surroundings) -> Finding:
    file = surroundings.located.config_file
    try:
        config = surroundings.config
    except ConfigRefused as refused:
        return Finding("config", "fail", str(refused),
                       "mend it with `blazar config edit`; `blazar config check` looks again")
    warnings = (*surroundings.located.warnings, *config.warnings)
    if warnings:
        return Finding("config", "warn", "; ".join(warnings), "`blazar config edit` opens the file, and `blazar config "
                       "check` tells of it again")
    found = str(file) if file.exists() else f"{file} is not there; every setting is at its default"
    return Finding("config", "ok", found)
