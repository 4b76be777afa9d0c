"""The programs that a measurement needs: which Debian package has them, and building our own."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCES = ROOT / "tools" / "bench"
BUILD = ROOT / "build" / "bench"

PACKAGES = {"cc": "gcc", "taskset": "util-linux", "nginx": "nginx-light", "haproxy": "haproxy", "go": "golang-go"}
"""Program: the Debian package that brings it."""

PARTS = {"engine": ("engine.c", "clients.c", "answers.c"), "load": ("load.c", "options.c", "reply.c", "report.c")}
"""Our C programs, and the sources of each."""

C_FLAGS = ("-std=gnu11", "-O2", "-Wall", "-Wextra")

NO_LIBRARY = re.compile(r"fatal error: \S+\.h: No such file|cannot find (?:\S*crt\w\.o|-l[cm]\b)")
"""What a compiler says that lacks the C library: our own headers are always there."""


class ProgramMissing(Exception):
    """A program is not installed."""

    def __init__(self, program: str) -> None:
        self.package = PACKAGES[program]
        super().__init__(f"there is no {program}; `sudo apt-get install {self.package}` brings it")


class BuildFailed(Exception):
    """A compiler refused one of our sources."""


def find(program: str, env: Mapping[str, str] = os.environ) -> str:
    """The path of a program, daemons included. Raises ProgramMissing."""
    found = shutil.which(program, path=os.pathsep.join([env.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"]))
    if found is None:
        raise ProgramMissing(program)
    return found


def output(command: list[str]) -> str:
    """All that a program says."""
    result = subprocess.run(command, capture_output=True, text=True)
    return (result.stdout + result.stderr).strip()


def build_c(name: str, folder: Path = BUILD) -> Path:
    """Compile one of PARTS, unless that was done already. Raises ProgramMissing and BuildFailed."""
    sources = [SOURCES / part for part in PARTS[name]]
    command = [find("cc"), *C_FLAGS, "-o", str(folder / name), *map(str, sources), "-lm"]
    try:
        return _build(folder / name, [*sources, *SOURCES.glob("*.h")], command, {})
    except BuildFailed as failure:
        if NO_LIBRARY.search(str(failure)) is None:
            raise
        raise BuildFailed(f"cc lacks the C library; `sudo apt-get install libc6-dev` brings it\n{failure}") from failure


def build_go(folder: Path = BUILD) -> Path:
    """Compile the Go reference. Raises ProgramMissing and BuildFailed."""
    source = SOURCES / "goproxy.go"
    env = {"GO111MODULE": "off", "CGO_ENABLED": "0", "GOCACHE": str(folder / "go-cache")}
    return _build(folder / "goproxy", [source], [find("go"), "build", "-o", str(folder / "goproxy"), str(source)], env)


def _build(target: Path, sources: list[Path], command: list[str], env: Mapping[str, str]) -> Path:
    if target.exists() and all(source.stat().st_mtime <= target.stat().st_mtime for source in sources):
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    result = subprocess.run(command, env={**os.environ, **env}, capture_output=True, text=True)
    if result.returncode != 0:
        raise BuildFailed(f"{' '.join(command)} failed:\n{result.stderr}")
    return target


def digest(folder: Path = ROOT / "blazar") -> str:
    """What tells the sources that are measured from all others."""
    found = hashlib.sha256()
    for source in sorted(folder.rglob("*.py")):
        found.update(f"{source.relative_to(folder)}\n".encode() + source.read_bytes())
    return found.hexdigest()[:16]
