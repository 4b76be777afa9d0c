"""Amend the settings file: add and remove API keys, with every other line and comment as they were.

A change is whole or not at all, and made only if the file then says what it said before, but for that.
"""

import fcntl
import os
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import tomlkit
from tomlkit.exceptions import TOMLKitError

from blazar.config.document import Document, read
from blazar.config.render import literal
from blazar.errors import ConfigRefused, StoreUnwritable

NEW_FILE, NEW_FOLDER = 0o600, 0o700
"""Modes of what is made; a file that is there keeps its own."""
KEYS = "keys"


def add_key(file: Path, entry: Mapping[str, Any]) -> None:
    """Add an entry of [[keys]] to `file`, which is made if it is not there. Raises ConfigRefused, StoreUnwritable."""
    def add(before: Document) -> str:
        if before.values.get(KEYS) and not _is_table(before):
            return _in_line(before.text, lambda entries: entries.append(_inline(entry)))
        text = before.text
        if KEYS in before.values and not before.values[KEYS]:
            text = _in_line(text, None)
        block = "".join(f"{name} = {literal(value)}\n" for name, value in entry.items())
        gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
        return f"{text}{gap}[[{KEYS}]]\n{block}"

    _amend(file, add, lambda values: {**values, KEYS: [*values.get(KEYS, []), dict(entry)]},
           "add the entry by hand: [[keys]], and below it its fields")


def remove_key(file: Path, secret: str, check: Callable[[int], None] = lambda others: None) -> None:
    """Take the entry of [[keys]] whose `key` is `secret` out of `file`, wherever it stands by now. `check` is told how
    many others there are, and may raise. Raises ConfigRefused, and StoreUnwritable."""
    place = -1

    def remove(before: Document) -> str:
        nonlocal place
        secrets = [entry.get("key") for entry in before.values.get(KEYS, [])]
        if secret not in secrets:
            raise ConfigRefused(where=str(file), problem="the API key's entry is not there any more",
                                remedy="see `blazar keys list`")
        check(len(secrets) - 1)
        place = secrets.index(secret)
        if not _is_table(before):
            return _in_line(before.text, None if len(before.values[KEYS]) == 1 else lambda entries: entries.pop(place))
        lines = before.text.splitlines(keepends=True)
        first = (before.line((KEYS, place)) or 1) - 1
        last = first + 1
        while last < len(lines) and not lines[last].lstrip().startswith("["):
            last += 1
        while not lines[last - 1].strip() or lines[last - 1].lstrip().startswith("#"):
            last -= 1  # what stands above the next table belongs to that
        if first and not lines[first - 1].strip() and not "".join(lines[last:last + 1]).strip():
            first -= 1  # of two empty lines, or one at the end, the entry brought one along
        return "".join(lines[:first] + lines[last:])

    def without(values: dict[str, Any]) -> dict[str, Any]:
        left = [entry for number, entry in enumerate(values[KEYS]) if number != place]
        return {**{name: value for name, value in values.items() if name != KEYS}, **({KEYS: left} if left else {})}

    _amend(file, remove, without, "take the entry out by hand")


def _is_table(document: Document) -> bool:
    """Whether the entries are written as [[keys]], and not within brackets behind `keys =`."""
    return any(line.lstrip().startswith("[[") and KEYS in line for line in document.text.splitlines())


def _in_line(text: str, change: Callable[[Any], object] | None) -> str:
    """The text with its `keys = [...]` changed, or without that."""
    document = tomlkit.parse(text)
    if change is None:
        document.remove(KEYS)
    else:
        change(document[KEYS])
    return tomlkit.dumps(document)


def _inline(entry: Mapping[str, Any]) -> Any:
    table = tomlkit.inline_table()
    table.update(entry)
    return table


def _amend(file: Path, change: Callable[[Document], str], expected: Callable[[dict[str, Any]], dict[str, Any]],
           remedy: str) -> None:
    try:
        _amend_alone(file, change, expected, remedy)
    except OSError as error:
        raise StoreUnwritable(path=file, reason=error.strerror or error, remedy="nothing was changed; see that there "
                              "is room, and that the file and its folder are yours to write") from error


def _amend_alone(file: Path, change: Callable[[Document], str], expected: Callable[[dict[str, Any]], dict[str, Any]],
                 remedy: str) -> None:
    target = Path(os.path.realpath(file))
    target.parent.mkdir(mode=NEW_FOLDER, parents=True, exist_ok=True)
    with _alone(target.parent):
        before = read(target)
        try:
            text = change(before)
            right = tomllib.loads(text) == expected(before.values)
        except (TOMLKitError, ValueError, TypeError, KeyError, IndexError, AttributeError):
            right = False
        if not right:
            raise ConfigRefused(where=str(file), problem="it is written in a way that cannot be changed from here "
                                "without changing more", remedy=remedy)
        _replace(target, text)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Two who change the file at the same time would lose what the first one did."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
        with suppress(OSError):  # not every file system can
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _replace(target: Path, text: str) -> None:
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
