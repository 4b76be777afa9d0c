"""Is the clock right? Certificates, days of quotas and the times in logs go by it."""

import ctypes
import time
from collections.abc import Callable

from blazar.doctor.check import Finding, Surroundings
from blazar.units import format_duration

RELEASED = 1_764_547_200
"""Seconds since 1970 at a time before which this version cannot run."""
TOLERATED = 300.0
"""Seconds that a file may have been written in the future."""
UNSYNCHRONISED = 5
"""What adjtimex(2) answers while nothing sets the clock."""
REMEDY = ("have it set over the network: `sudo timedatectl set-ntp true`, on Debian after `sudo apt install "
          "systemd-timesyncd`")


def check_clock(surroundings: Surroundings, now: Callable[[], float] = time.time) -> Finding:
    moment = now()
    if moment < RELEASED:
        return Finding("clock", "warn", f"it says {_shown(moment)}, which is before this version was made", REMEDY)
    try:
        ahead = surroundings.located.paths.database.stat().st_mtime - moment
    except OSError:
        ahead = 0.0
    if ahead > TOLERATED:
        return Finding("clock", "warn", f"it says {_shown(moment)}, and the database was written "
                       f"{format_duration(ahead)} after that: it was set back", REMEDY)
    return Finding("clock", "ok", _shown(moment) + _kept())


def _kept() -> str:
    """What the kernel says of who sets the clock; asking changes nothing. A container or guest hears nothing of it."""
    try:
        state = int(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(512)))
    except (OSError, AttributeError):
        return ""
    return "; nothing here sets it over the network" if state == UNSYNCHRONISED else "; it is set over the network"


def _shown(moment: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(moment))
