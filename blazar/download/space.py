"""Room on the disk, and the disk's refusals in words."""

import errno
import os
from pathlib import Path

from blazar.errors import BlazarError, DiskFull, StoreUnwritable
from blazar.units import format_bytes

KEPT = "what has come is kept, ask again to go on"
RESERVE = 256 << 20
"""Bytes that a file of unknown size and content leaves free: it may be endless, and all else needs the disk too."""


def require(folder: Path, needed: int) -> None:
    """Raises DiskFull when the file system of `folder` has less than `needed` bytes for us."""
    try:
        stat = os.statvfs(folder)
    except OSError as error:
        raise unwritable(error, folder) from error
    free = stat.f_bavail * stat.f_frsize
    if needed > free:
        raise DiskFull(path=folder, needed=format_bytes(needed), free=format_bytes(free), kept=KEPT)


def require_reserve(folder: Path, came: int) -> None:
    """Raises DiskFull when a file of unknown size, of which `came` bytes are there, leaves too little to all others."""
    try:
        stat = os.statvfs(folder)
    except OSError as error:
        raise unwritable(error, folder) from error
    free, whole = stat.f_bavail * stat.f_frsize, stat.f_blocks * stat.f_frsize
    if free < min(RESERVE, whole // 10):
        raise DiskFull(f"a file whose size its server does not tell has {format_bytes(came)} so far, and fills the "
                       f"disk of {folder}, where {format_bytes(free)} are left; what came is thrown away: see that it "
                       f"is the right address, or free some space")


def no_room(error: OSError) -> bool:
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def unwritable(error: OSError, path: Path) -> BlazarError:
    """The error for a person that a refused write of `path` stands for."""
    reason = error.strerror or str(error)
    if no_room(error):
        return DiskFull(f"cannot write {path}: {reason}; free some space, or choose another `--data-dir`; {KEPT}")
    if error.errno == errno.EFBIG:
        remedy = "neither the file system nor `ulimit -f` may limit files to less than this one needs"
    else:
        remedy = "see that you may write there and that the disk is sound, or choose another `--data-dir`"
    return StoreUnwritable(path=path, reason=reason, remedy=remedy)
