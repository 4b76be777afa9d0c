"""A small disk of its own at a folder, and what fills it to the last byte."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, options: str = "size=4m") -> Iterator[Path]:
    """Mount a tmpfs at `folder`, which is made; skips the test where that is not allowed."""
    folder.mkdir(parents=True, exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("only the superuser can mount a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Somebody else's file that leaves no room; removing it makes room again."""
    filler = folder / "filler"
    with open(filler, "ab", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    return filler
