"""Reading what engines print for `--help` and `--version`: llama.cpp and its kin, and Python's argparse."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

DEEPEST = 16
"""Columns that a flag may be indented; what begins further right is part of a description."""
MOST_FLAGS = 4096
LONGEST_VERSION = 120

_START = re.compile(rf" {{0,{DEEPEST}}}(?=--?[A-Za-z])")
_NAME = re.compile(r"--?[A-Za-z][\w.-]*")
_VALUE = re.compile(r"(?:=| | {2}(?=[A-Z]+(?:,| \[)))(?!\[\S+ +\])(?P<value>[^\s,].*?)"
                    r"(?=,?(?: {2}|$| --?[A-Za-z]| \[))")
"""Some write two spaces before a placeholder, others put the default in brackets right behind it."""
_NEXT = re.compile(r"(?:, *| )(?=--?[A-Za-z])")
_ALLOWED = re.compile(r"allowed values: ([\w+.-]+(?:, [\w+.-]+)*)|\bone of \[([^\]]*)\]")
_BARE_LIST = re.compile(r"[a-z0-9+.-]+(?:,[a-z0-9+.-]+)+")
_REMOVED = "argument has been removed"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_VERSION = (re.compile(r"^version: *(\S.*)$", re.MULTILINE), re.compile(r"\bversion:? +(\S.*)$", re.MULTILINE),
            re.compile(r"^(b\d+\S*|v?\d+\.\d\S*)", re.MULTILINE))


@dataclass(frozen=True)
class Flag:
    """One option of a program."""

    names: tuple[str, ...]
    """All its spellings."""
    value: str | None = None
    """How the help calls its value; None for a switch."""
    choices: tuple[str, ...] = ()
    """The values it takes, where the help lists them."""


def read_flags(text: str) -> dict[str, Flag]:
    """The flags in a help text, by each of their spellings; those that it says were removed are left out."""
    found: dict[str, Flag] = {}
    for head, description in _entries(_COLOUR.sub("", text)):
        names, value, rest = _read_head(head)
        said = " ".join((rest, *description))
        if _REMOVED not in said and len(found) < MOST_FLAGS:
            choices = _choices(value, said)
            flag = Flag(names, value or ("VALUE" if choices else None), choices)
            found |= dict.fromkeys(names, flag)
    return found


def read_version(text: str) -> str | None:
    """The version in what a program prints for `--version`, as it writes it; None when there is none to be seen."""
    for pattern in _VERSION:
        match = pattern.search(_COLOUR.sub("", text))
        if match:
            return match[1].strip()[:LONGEST_VERSION]
    return None


def _entries(text: str) -> Iterator[tuple[str, list[str]]]:
    """Each line that begins with a flag, and the lines of its description that follow."""
    head = ""
    description: list[str] = []
    for line in text.splitlines():
        start = _START.match(line)
        if start:
            if head:
                yield head, description
            head, description = line[start.end():], []
        elif head:
            description.append(line.strip())
    if head:
        yield head, description


def _read_head(head: str) -> tuple[tuple[str, ...], str | None, str]:
    """`-c, --ctx-size N   text` -> its names, its placeholder, and the text."""
    names, value, place = [], None, 0
    while name := _NAME.match(head, place):
        names.append(name[0])
        place = name.end()
        given = _VALUE.match(head, place)
        if given and not _NAME.fullmatch(given["value"]):
            value, place = value or given["value"], given.end()
        following = _NEXT.match(head, place)
        if following is None:
            break
        place = following.end()
    return tuple(names), value, head[place:].strip()


def _choices(value: str | None, said: str) -> tuple[str, ...]:
    if value and "..." not in value:
        inner = value[1:-1] if value[0] + value[-1] in ("{}", "[]", "<>") else value
        if "|" in inner and " " not in inner:
            return tuple(inner.split("|"))
        if value.startswith("{") or _BARE_LIST.fullmatch(value):
            return tuple(inner.split(","))
    match = _ALLOWED.search(said)
    return tuple(word.strip() for word in (match[1] or match[2]).split(",")) if match else ()
