"""`Manifest`: what an engine program can do by its own account: its version and its flags, asked once and kept.

What is kept holds for one file as it is: path, size, time and inode of the program and of the libraries beside it.
A program that is built anew, or another one in its place, is asked again.
"""

import hashlib
import importlib.util
import json
import logging
import os
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from blazar.engines import asking
from blazar.engines.help_text import Flag, read_flags, read_version
from blazar.engines.program import EMBEDDED_MODULE, Program
from blazar.paths import package_home

log = logging.getLogger(__name__)

FORM = 1
"""Number of the form in which manifests are kept; a change of what is read from help texts gets a new one."""
LONGEST_SAID = 200


@dataclass(frozen=True)
class Manifest:
    """Without flags it says nothing of them: the program could not be asked, for the reason in `problem`."""

    version: str | None = None
    flags: Mapping[str, Flag] = field(default_factory=dict)
    """By each of their spellings."""
    problem: str = ""

    def has(self, flag: str) -> bool:
        """Whether the program takes `flag`; True as well when that is not known."""
        return not self.flags or flag in self.flags

    def takes(self, flag: str, value: str) -> bool:
        """Whether it takes that value too; only a list of words in its help says that it does not.

        Where help texts write <0|1>, llama.cpp takes other numbers as well.
        """
        known = self.flags.get(flag)
        return known is None or not known.choices or "," in value or value.isdigit() or value in known.choices

    def distinct(self) -> list[Flag]:
        """Each flag once, in the order of the help text."""
        return list({flag.names: flag for flag in self.flags.values()}.values())


def manifest_of(program: Program, cache: Path, env: Mapping[str, str] = os.environ,
                extra: Mapping[str, str] | None = None) -> Manifest:
    """The manifest of `program`, out of the folder `cache` or by asking it. Never fails: see `Manifest.problem`.

    `extra` is environment that the program is started with.
    """
    identity = _identity(program)
    file = cache / f"{hashlib.sha256(json.dumps(program.argv).encode()).hexdigest()[:24]}.json"
    kept = _kept(file, identity)
    if kept is not None:
        return kept
    manifest = _asked(program, env, extra or {})
    if manifest.problem:
        log.warning("%s does not tell its flags, so none are checked: %s", program.argv[0], manifest.problem)
    elif identity is not None:
        _keep(file, identity, manifest)
    return manifest


def _asked(program: Program, env: Mapping[str, str], extra: Mapping[str, str]) -> Manifest:
    if program.argv[1:] == EMBEDDED_MODULE:
        extra = {**extra, "PYTHONPATH": str(package_home())}
    try:
        said = asking.ask((*program.argv, "--help"), env, extra)
        flags = read_flags(said)
        if not flags:
            return Manifest(problem=f"its --help names no flag{_last_line(said)}")
        return Manifest(read_version(asking.ask((*program.argv, "--version"), env, extra)), flags)
    except OSError as error:  # TimeoutError is one
        return Manifest(problem=str(error))


def _last_line(said: str) -> str:
    """The end of what was said, to be put behind a message: often why it could not start."""
    lines = said.split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return f", but says: {last[:LONGEST_SAID]}" if last else ""


def _identity(program: Program) -> list[Any] | None:
    """What changes when the program does; None when it cannot be looked at."""
    try:
        real = os.path.realpath(program.argv[0])
        return [FORM, *program.argv, real, *(_state(file) for file in (Path(real), *_parts(program, Path(real))))]
    except OSError:
        return None


def _parts(program: Program, real: Path) -> list[Path]:
    """Files that belong to a program: shared libraries beside it, or what the embedded engine consists of."""
    if program.argv[1:] == EMBEDDED_MODULE:
        ours = package_home() / "blazar" / "engines"
        return [ours / "embedded.py", ours / "embedded_flags.py", *_wheel(Path(program.argv[0]))]
    return sorted(real.parent.glob("lib*.so*"))


def _wheel(python: Path) -> list[Path]:
    """xllamacpp's first file, in the environment of `python`."""
    inside = list(python.parent.parent.glob("lib/python*/site-packages/xllamacpp/__init__.py"))
    if inside:
        return inside
    found = importlib.util.find_spec("xllamacpp")
    return [Path(found.origin)] if found and found.origin else []


def _state(file: Path) -> list[Any]:
    state = file.stat()
    return [file.name, state.st_size, state.st_mtime_ns, state.st_ino]


def _kept(file: Path, identity: list[Any] | None) -> Manifest | None:
    """What is kept for exactly this program; a file that cannot be read or understood counts as none."""
    try:
        told = json.loads(file.read_bytes())
        if identity is None or told["identity"] != identity:
            return None
        flags: dict[str, Flag] = {}
        for one in told["flags"]:
            flag = Flag(tuple(one["names"]), one["value"], tuple(one["choices"]))
            flags |= dict.fromkeys(flag.names, flag)
        return Manifest(told["version"], flags)
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def _keep(file: Path, identity: list[Any], manifest: Manifest) -> None:
    """Write it whole or not at all; where nothing can be written, the program is asked again next time."""
    told = {"identity": identity, "version": manifest.version, "flags": [asdict(flag) for flag in manifest.distinct()]}
    partial = file.with_suffix(f".{secrets.token_hex(4)}.partial")
    try:
        file.parent.mkdir(mode=0o700, exist_ok=True)
        partial.write_text(json.dumps(told))
        partial.replace(file)
    except OSError as error:
        log.info("the manifest of %s cannot be kept: %s", identity[1], error)
        with suppress(OSError):  # its folder is not there, or not ours
            partial.unlink(missing_ok=True)
