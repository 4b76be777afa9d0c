#!/usr/bin/python3
"""Run a program as systemd would run a unit: `tools/as_unit.py ROOT UNIT COMMAND...`, as root.

In the root folder ROOT, as the unit's user, in its environment, without capabilities and under its SystemCallFilter,
but without its mounts and limits. Needs python3-seccomp and systemd-analyze. For tools/package_check.sh.
"""

import ctypes
import os
import pwd
import re
import subprocess
import sys
from pathlib import Path

import seccomp  # type: ignore[import-not-found]

PR_CAPBSET_DROP = 24
LAST_CAPABILITY = Path("/proc/sys/kernel/cap_last_cap")


def values(unit: str, key: str) -> list[str]:
    """Every value of a key, in order."""
    return re.findall(rf"^{key}=(.*)$", unit, re.MULTILINE)


def calls(name: str) -> set[str]:
    """The system calls that `name`, a call or a group of systemd's, stands for."""
    if not name.startswith("@"):
        return {name}
    told = subprocess.run(["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, check=True)
    words = [line.strip() for line in told.stdout.splitlines()[1:]]
    return {call for word in words if word and not word.startswith("#") for call in calls(word)}


def allowed(unit: str) -> set[str]:
    """What the lines of SystemCallFilter leave, each adding to what those before it have left, or taking away."""
    left: set[str] = set()
    for line in values(unit, "SystemCallFilter"):
        named = set().union(*(calls(word) for word in line.removeprefix("~").split()))
        left = left - named if line.startswith("~") else left | named
    return left


def filter_of(unit: str) -> seccomp.SyscallFilter:
    """Refuses with EPERM what is not allowed; names that this machine does not know are passed over."""
    found = seccomp.SyscallFilter(seccomp.ERRNO(1))
    for name in sorted(allowed(unit)):
        try:
            found.add_rule(seccomp.ALLOW, name)
        except (RuntimeError, ValueError):
            continue
    return found


def main(root: str, file: str, *command: str) -> None:
    unit = Path(file).read_text(encoding="utf-8")
    barrier = filter_of(unit)
    capabilities = range(int(LAST_CAPABILITY.read_text()) + 1)
    os.chroot(root)
    os.chdir("/")
    user = pwd.getpwnam(values(unit, "User")[0])
    words = " ".join(values(unit, "Environment")).split()
    kept = {name: value for name, value in os.environ.items() if name.startswith("PIP_")}
    env = {**kept, "PATH": "/usr/bin:/bin", "HOME": user.pw_dir, **dict(word.split("=", 1) for word in words)}
    libc = ctypes.CDLL(None)
    for number in capabilities:
        libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
    os.initgroups(user.pw_name, user.pw_gid)
    os.setgid(user.pw_gid)
    os.setuid(user.pw_uid)
    os.umask(int(values(unit, "UMask")[0], 8))
    barrier.load()
    os.execvpe(command[0], command, env)


if __name__ == "__main__":
    main(*sys.argv[1:])
