"""Copying files into the store, hashed on the way, with progress told."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from blazar.errors import ModelFileRefused
from blazar.store.local import LocalFile
from blazar.store.locks import told_in_words
from blazar.store.pieces import Piece

Progress = Callable[[str, int, int | None], None]
"""Called with the stage (`download`, `verify`, `install`), the bytes done, and the bytes in all if known."""

BLOCK = 1 << 20
"""Bytes copied at once."""


def silent(stage: str, done: int, total: int | None) -> None:
    """A `Progress` that tells nobody."""


def copied(files: Sequence[LocalFile], folder: Path, progress: Progress) -> list[Piece]:
    """Copies of `files` in `folder`, as pieces of a model; progress counts them as one."""
    total = sum(file.size for file in files)
    pieces: list[Piece] = []
    done = 0
    for number, file in enumerate(files):
        target = folder / f"{number}.piece"
        with told_in_words(folder), open(target, "xb") as copy:
            digest = copy_hashed(blocks(file.path), copy, total, "install", progress, done)
        pieces.append(Piece(file.role, target, digest, target.stat().st_size, text_of(file.path.name)))
        done += file.size
    return pieces


def copy_hashed(source: Iterable[bytes], target: BinaryIO, size: int | None, stage: str, progress: Progress,
                before: int = 0) -> str:
    """Write the blocks, flush them to the disk, and return their sha256 in hex.

    Progress begins at `before` bytes of `size`.
    """
    digest, done = hashlib.sha256(), before
    progress(stage, done, size)
    for block in source:
        target.write(block)
        digest.update(block)
        done += len(block)
        progress(stage, done, size)
    target.flush()
    os.fsync(target.fileno())
    return digest.hexdigest()


def blocks(path: Path) -> Iterator[bytes]:
    """The content of a file, block by block. Raises ModelFileRefused."""
    try:
        with open(path, "rb") as file:
            while block := file.read(BLOCK):
                yield block
    except OSError as error:
        raise ModelFileRefused(path=path, reason=f"it cannot be read ({error.strerror})") from error


def text_of(path: Path | str) -> str:
    """File names are bytes; what is no text in them is replaced."""
    return os.fsencode(path).decode(errors="replace")
