"""Add and remove API keys in the settings file, with every other line and comment as they were."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import tomlkit

from blazar.config.amend import amend
from blazar.config.document import Document
from blazar.config.render import literal

KEYS = "keys"


def add_key(file: Path, entry: Mapping[str, Any]) -> None:
    """Add an entry of [[keys]] to `file`, which is made if it is not there. Raises ConfigRefused, OSError."""
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
        return {**before.values, KEYS: [*before.values.get(KEYS, []), dict(entry)]}

    amend(file, lambda before: [partial(add, before)], with_it,
          "add the entry by hand: [[keys]], and below it its fields")


def remove_key(file: Path, place: int) -> None:
    """Take the entry of [[keys]] at `place` out of `file`. Raises ConfigRefused, OSError."""
    def remove(before: Document) -> str:
        if not _is_table(before):
            return _in_line(before.text, None if len(before.values[KEYS]) == 1 else lambda entries: entries.pop(place))
        lines = before.text.splitlines(keepends=True)
        first = (before.line((KEYS, place)) or 1) - 1
        last = first + 1
        while last < len(lines) and not lines[last].lstrip().startswith("["):
            last += 1
        while not lines[last - 1].strip() or lines[last - 1].lstrip().startswith("#"):
            last -= 1  # what stands above the next table belongs to that
        return "".join(lines[:first] + lines[last:])

    def without(before: Document) -> dict[str, Any]:
        left = [entry for number, entry in enumerate(before.values[KEYS]) if number != place]
        others = {name: value for name, value in before.values.items() if name != KEYS}
        return {**others, **({KEYS: left} if left else {})}

    amend(file, lambda before: [partial(remove, before)], without, "take the entry out by hand")


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
