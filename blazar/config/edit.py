"""Set and unset one key of the settings file, with every other line and comment as they were.

A key is changed where it stands. A new one goes to the top of the file, or into its table: below the line of the
sample file that tells of it, if that is there.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import tomlkit

from blazar.config.amend import Way, amend
from blazar.config.document import Document
from blazar.config.hoist import hoist
from blazar.config.refusal import KeyPath
from blazar.config.render import bare, literal

MOST_TRIES = 200
"""Places or lengths that are tried for one change."""
BY_HAND = "change it by hand: `blazar config edit`"


def set_value(file: Path, path: KeyPath, value: Any, check: Callable[[Document], object]) -> None:
    """Give the key at `path` a value, plain TOML data; `check` raises if the file may not say what it then says.

    Raises ConfigRefused, OSError.
    """
    def ways(before: Document) -> Iterator[Way]:
        place = _written(before, path)
        if _find(before.values, place) is None:
            yield from _added(before, place, value)
        yield from _rewritten(before, place, value)

    def expected(document: Document) -> dict[str, Any]:
        return _with(document.values, _written(document, path), value)

    amend(file, ways, expected, BY_HAND, check)


def unset(file: Path, path: KeyPath, check: Callable[[Document], object]) -> bool:
    """Take the key at `path` out, or the table; whether it was there. `check` as above.

    Raises ConfigRefused, OSError.
    """
    there = False

    def ways(before: Document) -> Iterator[Way]:
        nonlocal there
        place = _written(before, path)
        there = _find(before.values, place) is not None
        if not there:
            yield lambda: before.text
            return
        for head, _, tail in _split(before, place):
            yield partial(_joined, head, tail)
        yield from _rewritten(before, place, None)

    def expected(document: Document) -> dict[str, Any]:
        return _with(document.values, _written(document, path), None)

    amend(file, ways, expected, BY_HAND, check)
    return there


def _written(document: Document, path: KeyPath) -> KeyPath:
    """Where the file has the key: `port` may stand in [gateway]."""
    flat, _ = hoist(document.values)
    name = str(path[0])
    return (*flat[name][0], *path[1:]) if name in flat else path


def _find(values: Any, path: KeyPath) -> Any:
    for name in path:
        values = values.get(name) if isinstance(values, Mapping) else None
    return values


def _with(values: Mapping[str, Any], path: KeyPath, value: Any) -> dict[str, Any]:
    """A copy of `values` in which `path` has `value`; None takes it out."""
    name, changed = str(path[0]), dict(values)
    if len(path) > 1:
        inner = changed.get(name)
        changed[name] = _with(inner if isinstance(inner, Mapping) else {}, path[1:], value)
    elif value is None:
        changed.pop(name, None)
    else:
        changed[name] = value
    return changed


def _split(before: Document, path: KeyPath) -> Iterator[tuple[list[str], list[str], list[str]]]:
    """The lines before those of a key or table, those that may be its own, and the rest: fewest of its own first."""
    lines = before.text.splitlines(keepends=True)
    first = (before.line(path) or 1) - 1
    for last in range(first + 1, min(len(lines), first + MOST_TRIES) + 1):
        yield lines[:first], lines[first:last], lines[last:]


def _rewritten(before: Document, path: KeyPath, value: Any) -> Iterator[Way]:
    """The ways to write the lines of a key anew, and no other: tomlkit would bring the tables of a file together."""
    for head, own, tail in _split(before, path):
        yield partial(_anew, head, own, tail, path, value)


def _anew(head: list[str], own: list[str], tail: list[str], path: KeyPath, value: Any) -> str:
    return _joined(head, [_put("".join(own), path, value)], tail)


def _put(text: str, path: KeyPath, value: Any) -> str:
    """Some lines, in which a key has another value, or is gone. They may stand below a header that is not in them."""
    document = tomlkit.parse(text)
    table: Any = document
    while path[1:] and path[0] not in table:
        path = path[1:]
    for name in path[:-1]:
        table = table[name]
    if value is None:
        table.remove(path[-1])
    else:
        table[path[-1]] = value
    return tomlkit.dumps(document)


def _added(before: Document, path: KeyPath, value: Any) -> Iterator[Way]:
    """The ways to add a line for a key that is not there."""
    end = "\r\n" if "\r\n" in before.text else "\n"
    lines = before.text.splitlines(keepends=True)
    line = f"{bare(str(path[-1]))} = {literal(value)}{end}"
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += end
    if len(path) > 1 and _find(before.values, path[:-1]) is None:
        header = f"[{'.'.join(bare(str(name)) for name in path[:-1])}]{end}"
        yield partial(_joined, lines, [end] if lines and lines[-1].strip() else [], [header, line])
        return
    for place in _places(before, path, lines):
        apart = place < len(lines) and bool(lines[place].strip()) and not _is_words(lines[place - 1 : place])
        yield partial(_joined, lines[:place], [line], [end] if apart else [], lines[place:])


def _places(before: Document, path: KeyPath, lines: list[str]) -> Iterator[int]:
    """Numbers of lines before which a new key may stand: the first at which it lands in its table is taken."""
    first = (before.line(path[:-1]) or 1) if len(path) > 1 else 0
    named = re.compile(rf"#\s?{re.escape(str(path[-1]))}\s*=")
    headers = [number for number, line in enumerate(lines) if number >= first and line.lstrip().startswith("[")]
    for number, line in enumerate(lines[: headers[0] if headers else None]):
        if number >= first and named.match(line):
            yield number + 1
            break
    for number in headers[:MOST_TRIES]:
        while number > first and _is_words(lines[number - 1 : number]):
            number -= 1  # what stands right above a table belongs to that
        while number > first and not lines[number - 1].strip():
            number -= 1
        yield number
    yield len(lines)


def _is_words(line: list[str]) -> bool:
    return any(one.lstrip().startswith("#") for one in line)


def _joined(*parts: list[str]) -> str:
    return "".join(line for part in parts for line in part)
