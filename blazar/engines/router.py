"""llama-server as a router: one process that loads models by the sections of an INI file. Pure.

A section holds the flags that the model's own child would have had. Not every flag can be written there: the file has
no quotes, `;` and `#` begin a comment wherever they stand, and a key counts once. What cannot stand there, but is the
same for all models, goes into the router's own command, which holds for each of them.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence

from blazar.engines.llamacpp import LlamaCpp
from blazar.engines.manifest import Manifest
from blazar.transport import ROUTER

PRESETS = "--models-preset"
SECRET_VARIABLE = "LLAMA_ARG_API_KEY_FILE"
"""Tells the secret to the router's own children too, who listen on ports that everybody here can reach. As a flag it
would be the router's alone."""
OWN = frozenset({"--threads-http", "--timeout"})
"""What holds for the router itself as well, and is the same for all models."""
FILES = frozenset({"--model", "--mmproj"})
"""With one of these it would be no router."""
UNNEEDED = "--alias"
"""The router names its children itself."""
_TAIL = ",~:"
"""The end of each section's name. Of a name llama.cpp writes the part behind the last colon in upper case, and cuts it
at a dash; and it takes the name for a list, whose first by the alphabet stands in answers. So they hold the model's
own name, as it is."""
_FLAG = re.compile(r"--?[A-Za-z]")
_TWO_VALUES = re.compile(r"[A-Z]+ [A-Z]+")
_UNSAFE = re.compile(r"[;#\r\n\0]|^[ \t]|[ \t]$")

Pair = tuple[str, str]
"""A flag and its value; a switch has the value `true`."""


class Unwritable(Exception):
    """A flag that no section can hold; the message says which, and why."""


class RouterLane(LlamaCpp):
    """How a router is reached; the commands of its models come from their own lane."""

    kind = ROUTER


def section_of(model: str) -> str:
    """What the router calls the model; it answers to the model's own name too."""
    return model + _TAIL


def model_of(section: str) -> str:
    return section.removesuffix(_TAIL)


def fingerprint(digests: Mapping[str, str]) -> str:
    """What changes when any model does, 64 hex digits; `digests` are those of all models, by name."""
    return hashlib.sha256(json.dumps(dict(digests), sort_keys=True).encode()).hexdigest()


def pairs(words: Sequence[str], manifest: Manifest) -> list[Pair]:
    """The flags of a model's command. Raises Unwritable for what a router cannot be told."""
    found: dict[str, str] = {}
    rest = list(words)
    while rest:
        flag = rest.pop(0)
        known = manifest.flags.get(flag)
        takes = known.value is not None if known else bool(rest) and not _FLAG.match(rest[0])
        value = rest.pop(0) if takes and rest else "true"
        if known and _TWO_VALUES.fullmatch(known.value or ""):
            raise Unwritable(f"{flag} takes two values")
        if flag in found:
            raise Unwritable(f"{flag} stands there twice")
        if flag != UNNEEDED:
            found[flag] = value
    return list(found.items())


def shared(models: Iterable[Sequence[Pair]]) -> list[Pair]:
    """What every model has alike, and no section can hold, or the router needs too."""
    first, *others = [list(found) for found in models] or [[]]
    return [pair for pair in first if (pair[0] in OWN or _UNSAFE.search(pair[1])) and pair[0] not in FILES
            and all(pair in other for other in others)]


def section(model: str, found: Iterable[Pair]) -> str:
    """The section of one model. Raises Unwritable."""
    lines = [f"[{section_of(model)}]", f"alias = {model}"]
    for flag, value in found:
        if _UNSAFE.search(value):
            raise Unwritable(f"the value of {flag} has a character that a preset file cannot hold")
        lines.append(f"{flag.lstrip('-')} = {value}")
    return "\n".join(lines) + "\n"


def argv(program: Sequence[str], presets: str, most: int, common: Iterable[Pair]) -> tuple[str, ...]:
    """The router's command. `most` models are loaded at a time, 0 leaves that to it."""
    limit = ["--models-max", str(most)] if most else []
    return (*program, PRESETS, presets, *limit, *(word for pair in common for word in pair))
