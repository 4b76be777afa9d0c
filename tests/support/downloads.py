"""Content to download, partials as an earlier process leaves them, and what lies in a folder afterwards."""

import functools
import hashlib
import json
import os
import random
import time
from pathlib import Path

MIB = 1024 * 1024


@functools.lru_cache(maxsize=4)
def content(size: int, seed: int = 1) -> bytes:
    """Bytes that are nowhere like their neighbours: a shifted copy is never right."""
    return random.Random(seed).randbytes(size)


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def leave_partial(target: Path, data: bytes, url: str, validator: str | None, size: int | None,
                  spans: list[tuple[int, int]], sha256: str | None = None) -> None:
    """`<target>.part` with `data`, and its state."""
    target.with_name(target.name + ".part").write_bytes(data)
    state = {"version": 1, "url": url, "sha256": sha256, "size": size, "validator": validator,
             "done": [list(span) for span in spans]}
    target.with_name(target.name + ".part.json").write_text(json.dumps(state))


def grow_old(folder: Path, seconds: float) -> None:
    """Let `folder` and its files look as if nobody had touched them for so long."""
    then = time.time() - seconds
    for path in (*folder.iterdir(), folder):
        os.utime(path, (then, then))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
