"""The unit that `blazar service install` writes, made of the one that the system's package ships."""

import re
import site
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from blazar.errors import ServiceRefused
from blazar.paths import package_home

MARK = "# Written by `blazar service install`; it may be written again. Changes belong into a drop-in."

FOR_USERS = frozenset((
    "Description", "Documentation", "StartLimitIntervalSec", "StartLimitBurst", "Type", "NotifyAccess", "ExecStart",
    "ExecReload", "TimeoutStartSec", "TimeoutStopSec", "KillMode", "WatchdogSec", "Restart", "RestartSec",
    "RestartPreventExitStatus", "OOMPolicy", "LimitNOFILE", "NoNewPrivileges", "UMask", "RestrictNamespaces",
    "RestrictAddressFamilies", "RestrictSUIDSGID", "RestrictRealtime", "LockPersonality", "SystemCallArchitectures",
    "SystemCallFilter", "SystemCallErrorNumber", "WantedBy"))
"""What a user's manager can do, which has no privileges and no other units of the machine."""


def template() -> str:
    """The shipped unit: in a checkout, or where pip puts data files. Raises ServiceRefused."""
    places = (package_home() / "etc" / "systemd", Path(sys.prefix) / "share" / "blazar" / "systemd")
    for place in places:
        if (place / "blazar.service").exists():
            return (place / "blazar.service").read_text(encoding="utf-8")
    raise ServiceRefused(reason=f"the unit is missing in {places[0]} and {places[1]}", remedy="install Blazar again")


def own_command() -> list[str]:
    """What starts this very Blazar."""
    return [sys.executable, "-P", "-m", "blazar.cli.main", "serve"]


def own_environment() -> dict[str, str]:
    """What `own_command` needs: Python looks into its own folders for packages, but not into a checkout."""
    home = str(package_home())
    return {} if home in site.getsitepackages() else {"PYTHONPATH": home}


def unit(shipped: str, command: Sequence[str], environment: Mapping[str, str], of_user: bool) -> str:
    """`shipped` with another command and more environment; for a user's manager only what that can do."""
    lines = [MARK]
    for line in shipped.splitlines():
        key = line.partition("=")[0] if re.match(r"\w+=", line) else ""
        if of_user and not (line.startswith("[") or key in FOR_USERS):
            continue
        if key == "ExecStart":
            lines.append(f"ExecStart={' '.join(map(quoted, command))}")
            lines += [f"Environment={quoted(f'{name}={value}')}" for name, value in environment.items()]
        elif key == "ExecReload":
            lines.append(f"ExecReload={' '.join(map(quoted, [*command[:-1], 'reload']))}")
        elif key == "WantedBy" and of_user:
            lines.append("WantedBy=default.target")
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


def quoted(word: str) -> str:
    """`word` as systemd reads it back: within quotes where it has to be, and no sign in it that stands for more."""
    word = word.replace("%", "%%").replace("$", "$$")
    if re.fullmatch(r"[\w@%+=:,./$-]+", word):
        return word
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"'
