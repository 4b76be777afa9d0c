"""Add and remove API keys in the settings file, with every other line and comment as they were."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import tomlkit

from blazar.config.amend import amend
from blazar.config.document import Document
from blazar.config.render import literal
from blazar.errors import ConfigRefused, StoreUnwritable

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

    def with_it(before: Document) -> dict[str, Any]:
        return {**before.values, KEYS: [*_entries(before), dict(entry)]}

    with _writing(file):
        amend(file, lambda before: [partial(add, before)], with_it,
              "add the entry by hand: [[keys]], and below it its fields")


def remove_key(file: Path, secret: str, check: Callable[[int], None] = lambda others: None) -> None:
    """Take the entry of [[keys]] whose `key` is `secret` out of `file`, wherever it stands by now. `check` is told how
    many others there are, and may raise. Raises ConfigRefused, StoreUnwritable."""
    def remove(before: Document) -> str:
        place = _place(before, secret)
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

    def without(before: Document) -> dict[str, Any]:
        place = _place(before, secret)
        left = [entry for number, entry in enumerate(_entries(before)) if number != place]
        others = {name: value for name, value in before.values.items() if name != KEYS}
        return {**others, **({KEYS: left} if left else {})}

    with _writing(file):
        amend(file, lambda before: [partial(remove, before)], without, "take the entry out by hand",
              lambda after: check(len(_entries(after))))


@contextmanager
def _writing(file: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreUnwritable(path=file, reason=error.strerror or error, remedy="nothing was changed; see that there "
                              "is room, and that the file and its folder are yours to write") from error


def _entries(document: Document) -> list[Any]:
    entries = document.values.get(KEYS)
    return entries if isinstance(entries, list) else []


def _place(document: Document, secret: str) -> int:
    """Where the entry with that secret stands. Raises ConfigRefused if it is gone."""
    for place, entry in enumerate(_entries(document)):
        if isinstance(entry, dict) and entry.get("key") == secret:
            return place
    raise ConfigRefused(where=str(document.file), problem="the API key's entry is not there any more",
                        remedy="see `blazar keys list`")


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
