"""flock, and the disk's refusals in words."""

import contextlib
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from blazar.errors import BlazarError, StoreUnwritable

_REMEDIES = {
    errno.ENOSPC: "free some space, or choose another `--data-dir`",
    errno.EDQUOT: "free some space, or choose another `--data-dir`",
    errno.EFBIG: "raise the limit on the size of files (`ulimit -f`), or choose another `--data-dir`",
    errno.ENOENT: "put the folder back, or start Blazar again, which makes it anew",
    errno.EROFS: "choose another `--data-dir`",
}
_NOT_YOURS = "run this as the user who owns it (for the packaged service: `sudo -u blazar blazar ...`), or choose " \
             "another `--data-dir`"


def unwritable(error: OSError, path: Path) -> BlazarError:
    """The error for a person that a refused write at or below `path` stands for."""
    place = Path(error.filename) if isinstance(error.filename, str) else path
    return StoreUnwritable(path=place, reason=error.strerror or str(error),
                           remedy=_REMEDIES.get(error.errno or 0, _NOT_YOURS))


@contextlib.contextmanager
def told_in_words(path: Path) -> Iterator[None]:
    """Turn an OSError of the block into StoreUnwritable about `path`, or about the file that the error names."""
    try:
        yield
    except OSError as error:
        raise unwritable(error, path) from error


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path`, waiting for whoever holds it now. Raises StoreUnwritable."""
    with told_in_words(path):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def try_lock(path: Path) -> int | None:
    """Lock a file or folder that exists without waiting: a descriptor to close later, or None when it is held."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor
