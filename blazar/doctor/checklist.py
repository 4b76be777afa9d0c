"""Every check, in the order in which a person should mend what it finds."""

from blazar.doctor.check import Check, Finding, Surroundings
from blazar.doctor.clock import check_clock
from blazar.doctor.config import check_config
from blazar.doctor.devices import check_devices
from blazar.doctor.drivers import check_drivers
from blazar.doctor.engines import check_engine, check_lanes
from blazar.doctor.machine import check_machine
from blazar.doctor.network import check_port
from blazar.doctor.permissions import check_permissions
from blazar.doctor.programs import check_limits, check_programs
from blazar.doctor.store import check_data_dir, check_models
from blazar.doctor.workers import check_workers

CHECKS: tuple[Check, ...] = (check_config, check_data_dir, check_permissions, check_clock, check_machine, check_drivers,
                             check_programs, check_limits, check_engine, check_lanes, check_devices, check_workers,
                             check_models, check_port)


def examine(surroundings: Surroundings) -> list[Finding]:
    found = [_looked(check, surroundings) for check in CHECKS]
    return [finding for one in found for finding in (one if isinstance(one, list) else [one])]


def _looked(check: Check, surroundings: Surroundings) -> Finding | list[Finding]:
    """What it finds; where the system does not let it look, that."""
    try:
        return check(surroundings)
    except OSError as error:
        subject = check.__name__.removeprefix("check_").replace("_", " ")
        return Finding(subject, "warn", f"{error.filename or 'it'} cannot be looked at: {error.strerror or error}",
                       "look as the owner of the data dir: `sudo -u USER blazar doctor`")
