"""The copy of the package with its hot path compiled, made anew when a source has changed."""

import fcntl
import hashlib
import importlib.metadata
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TREE = ROOT / "build" / "compiled"
"""What PYTHONPATH names: a folder that holds the package."""

LOG = ROOT / "build" / "compiled.log"
"""What a build said that failed."""

MARK = ".made-of"
"""The file in it that says of what it was made."""

RECIPE = ("setup.py", "setup.cfg", "tools/compiled/*.py")


class Unable(Exception):
    """It cannot be compiled here; the words say why, and what would help."""


def build() -> Path:
    """The copy, up to date. Raises Unable, and then there is none: an old one would be another program."""
    TREE.parent.mkdir(exist_ok=True)
    with open(f"{TREE}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sources = _sources()
        if not _made_of(sources):
            shutil.rmtree(TREE, ignore_errors=True)
            _check()
            _make(sources)
    return TREE


def _made_of(sources: str) -> bool:
    mark = TREE / MARK
    return mark.exists() and mark.read_text() == sources


def _sources() -> str:
    """A digest of all that decides what comes out."""
    digest = hashlib.sha256(f"{sys.version} {_version('mypy')} {os.environ.get('BLAZAR_OPTIMIZE')}".encode())
    for file in sorted([*(ROOT / "blazar").rglob("*.*"), *(file for some in RECIPE for file in ROOT.glob(some))]):
        if file.is_file() and file.suffix != ".pyc":
            digest.update(f"\n{file.relative_to(ROOT)}\n".encode() + file.read_bytes())
    return digest.hexdigest()


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _check() -> None:
    compiler = str(sysconfig.get_config_var("CC") or "cc").split()[0]
    if shutil.which(compiler) is None:
        raise Unable(f"there is no {compiler}; `sudo apt-get install gcc libc6-dev` brings it")
    header = Path(sysconfig.get_path("include")) / "Python.h"
    if not header.exists():
        raise Unable(f"there is no {header}; `sudo apt-get install python3-dev` brings it for Debian's Python")
    if missing := [module for module in ("mypyc", "setuptools") if importlib.util.find_spec(module) is None]:
        raise Unable(f"there is no {missing[0]}; `pip install 'blazar[compiled]'` brings it")


def _make(sources: str) -> None:
    print("compiling the hot path (about a minute, when it has changed) ...", flush=True)
    new = Path(f"{TREE}.new")
    shutil.rmtree(new, ignore_errors=True)
    command = [sys.executable, "setup.py", "--quiet", "build", "--build-lib", str(new), "--build-temp",
               str(ROOT / "build" / "compiled-o")]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, "BLAZAR_COMPILED": "1"}, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        LOG.write_text(done.stdout)
        last = done.stdout.strip().rpartition("\n")[2] or f"exit status {done.returncode}"
        raise Unable(f"the build failed, and {LOG.relative_to(ROOT)} has what it said; it ends with: {last}")
    (new / MARK).write_text(sources)
    new.rename(TREE)
