"""The n-gram caches of speculation: one file a model in `speccache/`, which the engine reads at start and may rewrite.

llama.cpp ends itself over a cache that is missing or broken, so the file is made, looked through and, where something
is wrong with it, emptied before each load. Its form: four tokens, how many may follow them, then each with its count;
all of them are 32-bit numbers of this machine, and unused tokens at the end of the four are -1.
"""

import logging
import os
import stat
from array import array
from pathlib import Path

from blazar.paths import Paths
from blazar.store.name import file_safe

log = logging.getLogger(__name__)

MOST = 32 << 20
"""Bytes of a cache that is still used: the engine keeps a copy of it for each slot."""
TOKENS = 4
"""Tokens of each n-gram."""


def cache_of(paths: Paths, model: str) -> Path:
    """Where the cache of `model` lies."""
    return paths.speccache / file_safe(model)


def make_ready(paths: Paths, model: str) -> Path | None:
    """A cache that the engine can read, empty if there is none; None where there cannot be one, which is logged."""
    file = cache_of(paths, model)
    try:
        paths.speccache.mkdir(exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
        try:
            why = _why_useless(descriptor)
            if why:
                log.warning("%s: its n-gram cache %s, and begins anew", model, why)
                os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)
    except OSError as error:
        log.warning("%s: no n-gram cache: %s", model, error)
        return None
    return file


def forget(paths: Paths, model: str) -> None:
    """Remove the cache of `model`. Raises OSError."""
    cache_of(paths, model).unlink(missing_ok=True)


def _why_useless(descriptor: int) -> str:
    """What is wrong with an open cache, for the end of a sentence; "" when nothing is. Raises OSError."""
    state = os.fstat(descriptor)
    if not stat.S_ISREG(state.st_mode):
        raise OSError("its place is taken by something that is no file")
    if state.st_size > MOST:
        return f"has more than {MOST >> 20} MiB"
    os.fchmod(descriptor, 0o600)
    content = os.pread(descriptor, MOST + 1, 0)
    return "" if _is_whole(content) else "is broken"


def _is_whole(content: bytes) -> bool:
    """Whether n-grams follow each other to the very end, each with followers that were seen at least once."""
    if len(content) % 4:
        return False
    numbers = array("i", content)
    at, end = 0, len(numbers)
    while at < end:
        count = numbers[at + TOKENS] if at + TOKENS < end else 0
        begin, at = at + TOKENS + 1, at + TOKENS + 1 + 2 * count
        if count < 1 or at > end or min(numbers[begin + 1:at:2]) < 1:
            return False
    return True
