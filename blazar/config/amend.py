"""Amend the settings file: a change is whole or not at all, and made only if the file then says what it said before,
but for that. Two who change it at the same time wait for each other.
"""

import fcntl
import os
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tomlkit.exceptions import TOMLKitError

from blazar.config.document import Document, read
from blazar.errors import ConfigRefused

NEW_FILE, NEW_FOLDER = 0o600, 0o700
"""Modes of what is made; a file that is there keeps its own."""
Way = Callable[[], str]
"""One way to write a change: the new text. It may raise, or be wrong: then the next one is tried."""


def accept(document: Document) -> object:
    """The check of whoever has none of his own."""


def amend(file: Path, ways: Callable[[Document], Iterable[Way]], expected: Callable[[Document], dict[str, Any]],
          remedy: str, check: Callable[[Document], object] = accept) -> None:
    """Write `file` in the first of `ways` after which it says what is `expected` of what it said before.

    `check` raises if what it then says is not acceptable. A file that is not there is made. Raises ConfigRefused,
    OSError.
    """
    target = Path(os.path.realpath(file))
    target.parent.mkdir(mode=NEW_FOLDER, parents=True, exist_ok=True)
    with alone(target.parent):
        before = read(target)
        wanted = _tidy(expected(before))
        for way in ways(before):
            after = _tried(way, file)
            if after is not None and _tidy(after.values) == wanted:
                break
        else:
            raise ConfigRefused(where=str(file), problem="it is written in a way that cannot be changed from here "
                                "without changing more", remedy=remedy)
        check(after)
        if after.text != before.text:
            replace(target, after.text)


def _tried(way: Way, file: Path) -> Document | None:
    try:
        text = way()
        return Document(file, text, tomllib.loads(text))
    except (TOMLKitError, ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None


def _tidy(values: Mapping[str, Any]) -> dict[str, Any]:
    """Without tables that hold nothing: those say nothing either."""
    tidy = {name: _tidy(value) if isinstance(value, dict) else value for name, value in values.items()}
    return {name: value for name, value in tidy.items() if value != {}}


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Two who change a file in `folder` at the same time would lose what the first one did."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        with suppress(OSError):  # not every file system can
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def replace(target: Path, text: str) -> None:
    """Put `text` in the place of `target` at once; its mode and owner stay. Raises OSError."""
    descriptor, partial = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with open(descriptor, "w", encoding="utf-8", newline="") as file:
            if target.exists():
                there = target.stat()
                if (there.st_uid, there.st_gid) != (os.geteuid(), os.getegid()):
                    os.fchown(descriptor, there.st_uid, there.st_gid)
                os.fchmod(descriptor, there.st_mode & 0o7777)
            else:
                os.fchmod(descriptor, NEW_FILE)
            file.write(text)
            file.flush()
            os.fsync(descriptor)
        os.replace(partial, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(partial)
        raise
