"""systemd as the verbs of `blazar service` ask it: which of its two managers, by which program."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from blazar.errors import ServiceRefused

UNIT = "blazar.service"
PACKAGED = (Path("/usr/lib/systemd/system"), Path("/lib/systemd/system"))
"""Where the system's packages put their units."""
BY_HAND = Path("/etc/systemd/system")


@dataclass(frozen=True)
class Systemd:
    """The manager of the machine, or that of one user."""

    program: str
    of_user: bool
    folder: Path
    """Where units are put by hand."""
    env: Mapping[str, str]

    @property
    def scope(self) -> list[str]:
        return ["--user"] if self.of_user else []

    def run(self, *words: str) -> str:
        """What `systemctl WORDS` prints. Raises ServiceRefused with its words when it fails."""
        done = subprocess.run([self.program, *self.scope, *words], env=self.env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, errors="replace")
        if done.returncode:
            said = " / ".join(line.strip() for line in done.stderr.splitlines()[:3] if line.strip())
            raise ServiceRefused(reason=f"`systemctl {' '.join([*self.scope, *words])}` ended with {done.returncode}"
                                        + (f": {said[:400]}" if said else ""),
                                 remedy="`blazar serve` runs the daemon without systemd")
        return done.stdout

    def journal(self, lines: int, follow: bool) -> int:
        """Print the unit's journal to our own stdout; the exit code of journalctl, which is taken from beside
        systemctl, else from PATH. Raises ServiceRefused when there is none."""
        beside = Path(self.program).with_name("journalctl")
        program = str(beside) if os.access(beside, os.X_OK) else shutil.which("journalctl", path=self.env.get("PATH"))
        if program is None:
            raise ServiceRefused(reason="there is no journalctl", remedy="read run/daemon.log in the data dir")
        unit = f"--{'user-' if self.of_user else ''}unit={UNIT}"
        return subprocess.call([program, unit, f"--lines={lines}", "--no-pager", *(["--follow"] if follow else [])],
                               env=self.env, stdin=subprocess.DEVNULL)


def packaged() -> Path | None:
    """The machine's unit, if the system's package brought one."""
    return next((folder / UNIT for folder in PACKAGED if (folder / UNIT).exists()), None)


def find(env: Mapping[str, str], to_install: bool = False) -> Systemd:
    """The manager that is meant. Root's is that of the machine; others mean their own when it has the unit or is to get
    it, else they look at the machine's. Raises ServiceRefused when there is no systemctl.

    BLAZAR_SYSTEMCTL is read here and not with the settings: a refused file is what people then look for.
    """
    named = env.get("BLAZAR_SYSTEMCTL")
    program = shutil.which(named or "systemctl", path=env.get("PATH"))
    if program is None:
        remedy = "correct BLAZAR_SYSTEMCTL" if named else "`blazar serve` runs the daemon without systemd"
        raise ServiceRefused(reason=f"there is no program {named or 'systemctl'}", remedy=remedy)
    home = Path(env.get("XDG_CONFIG_HOME") or Path(env.get("HOME") or "/") / ".config")
    own = home / "systemd" / "user"
    of_user = os.geteuid() != 0 and (to_install or (own / UNIT).exists())
    kept = {name: value for name, value in env.items() if not name.startswith("BLAZAR_")}
    return Systemd(program, of_user, own if of_user else BY_HAND, kept)
