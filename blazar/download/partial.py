"""An unfinished file and what is known of it: `<target>.part`, locked by whoever writes it, and `<target>.part.json`.

The state is written after the bytes that it speaks of have reached the disk, so it may say less than there is, never
more. A killed owner's lock is gone with it.
"""

import contextlib
import fcntl
import json
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blazar.download.space import no_room, unwritable
from blazar.download.spans import Spans
from blazar.paths import flush_folder

VERSION = 1
LARGEST_STATE = 1024 * 1024
SACRIFICE = 64 * 1024
"""Bytes given up at the end of a partial when the disk is too full even for its state."""


@dataclass
class State:
    """What is known of the file that the partial is to become."""

    url: str = ""
    """Where it comes from, as people see it: without what may be secret."""
    sha256: str | None = None
    size: int | None = None
    validator: str | None = None
    """ETag, or else Last-Modified, of the version that the bytes are of."""
    done: Spans = field(default_factory=Spans)

    @classmethod
    def read(cls, path: Path, there: int) -> "State":
        """The state kept in `path`, for a partial that has `there` bytes; an empty one when it makes no sense."""
        try:
            with open(path, "rb") as file:
                raw = json.loads(file.read(LARGEST_STATE))
            done = Spans.read(raw["done"]).clip(there)
            known = cls(raw["url"], raw["sha256"], raw["size"], raw["validator"], done)
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            return cls()
        sound = (raw.get("version") == VERSION and isinstance(known.url, str)
                 and all(text is None or isinstance(text, str) for text in (known.sha256, known.validator))
                 and (known.size is None or (type(known.size) is int and known.size >= done.end)))
        return known if sound else cls()

    @property
    def is_vague(self) -> bool:
        """Neither size nor digest is known, so it may be anything, without end."""
        return self.size is None and self.sha256 is None

    def to_dict(self) -> dict[str, Any]:
        return {"version": VERSION, "url": self.url, "sha256": self.sha256, "size": self.size,
                "validator": self.validator, "done": [list(span) for span in self.done]}


def part_of(target: Path) -> Path:
    return target.with_name(target.name + ".part")


def state_of(target: Path) -> Path:
    return target.with_name(target.name + ".part.json")


class Partial:
    """The partial of `target`, held by us. `lock` guards `state` and tells waiters that more has come."""

    def __init__(self, target: Path, descriptor: int) -> None:
        self.target = target
        self.lock = threading.Condition()
        self._descriptor: int | None = descriptor
        self._saving = threading.Lock()
        self.state = State.read(state_of(target), os.fstat(descriptor).st_size)
        self.kept = self.state.done.total
        """Bytes that an earlier process left."""

    def write(self, offset: int, block: bytes) -> None:
        """Put `block` at `offset`. Raises StoreUnwritable, DiskFull among them; nothing once this is closed."""
        with self.lock:
            if self._descriptor is None:
                return
            place, rest = offset, memoryview(block)
            try:
                while rest:
                    written = os.pwrite(self._descriptor, rest, place)
                    place, rest = place + written, rest[written:]
            except OSError as error:
                raise unwritable(error, self.target) from error
            finally:
                self.state.done.add(offset, place)
                self.lock.notify_all()

    def read(self, offset: int, count: int) -> bytes:
        assert self._descriptor is not None
        return os.pread(self._descriptor, count, offset)

    def restart(self) -> None:
        """Forget what has come; whose file it is to become stays."""
        with self.lock:
            assert self._descriptor is not None
            try:
                os.ftruncate(self._descriptor, 0)
            except OSError as error:
                raise unwritable(error, self.target) from error
            self.state = State(self.state.url, self.state.sha256)
            self.kept = 0

    def save(self) -> None:
        """Bring the bytes to the disk, then the state. Raises StoreUnwritable."""
        with self._saving:
            try:
                self._save()
            except OSError as error:
                if not no_room(error):
                    raise unwritable(error, self.target) from error
                self._sacrifice()

    def place(self) -> None:
        """Make the whole, verified file durable, give it its name, and let nothing else remain."""
        with self._saving, self.lock:
            assert self._descriptor is not None and self.state.size is not None
            try:
                os.ftruncate(self._descriptor, self.state.size)
                os.fsync(self._descriptor)
                os.replace(part_of(self.target), self.target)
                flush_folder(self.target.parent)
                _remove(state_of(self.target))
            except OSError as error:
                raise unwritable(error, self.target) from error

    def discard(self) -> None:
        """Remove the partial and its state."""
        try:
            remove(self.target)
        except OSError as error:
            raise unwritable(error, self.target) from error

    def close(self) -> None:
        """Give the lock back; a lane that is late writes nothing any more."""
        with self.lock:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def _save(self) -> None:
        with self.lock:
            if self._descriptor is None:
                return
            text = json.dumps(self.state.to_dict())
            descriptor = os.dup(self._descriptor)
        try:
            os.fdatasync(descriptor)
        finally:
            os.close(descriptor)
        _write(state_of(self.target), text)

    def _sacrifice(self) -> None:
        """Make room for the state: the last bytes can be fetched again, a lost state would cost them all."""
        with self.lock:
            assert self._descriptor is not None
            end = max(0, self.state.done.end - SACRIFICE)
            self.state.done = self.state.done.clip(end)
            os.ftruncate(self._descriptor, end)
        with contextlib.suppress(OSError):
            self._save()


def try_claim(target: Path) -> Partial | None:
    """The partial of `target`, made if need be; None when another holds it. Raises OSError."""
    path = part_of(target)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o666)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Between opening and locking it, its last owner may have finished and given it another name.
            if os.path.samestat(os.fstat(descriptor), os.stat(path)):
                return Partial(target, descriptor)
        except BlockingIOError:
            os.close(descriptor)
            return None
        except FileNotFoundError:
            pass
        os.close(descriptor)


def remove(target: Path) -> None:
    """Remove the partial of `target` and all that belongs to it."""
    for path in (state_of(target), _scratch(state_of(target)), part_of(target)):
        _remove(path)


def _write(path: Path, text: str) -> None:
    """Replace `path` as a whole. A kill in between leaves a scratch file, which the next one takes."""
    scratch = _scratch(path)
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with open(descriptor, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)
    os.replace(scratch, path)


def _scratch(path: Path) -> Path:
    return path.with_name(path.name + ".new")


def _remove(path: Path) -> None:
    with contextlib.suppress(FileNotFoundError):
        path.unlink()
