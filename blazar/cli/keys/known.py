"""The API keys that the sub-verbs speak of, and how a running daemon is told of a change."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from blazar.cli.context import Context
from blazar.errors import UsageRefused

BOOTSTRAP = "BLAZAR_KEYS"


@dataclass(frozen=True)
class Known:
    """One configured API key; `place` is that in the file, or None for one of BLAZAR_KEYS."""

    name: str
    fields: Mapping[str, Any]
    place: int | None

    @property
    def source(self) -> str:
        return BOOTSTRAP if self.place is None else "file"


def known(context: Context) -> list[Known]:
    """The API keys of the file, then those of BLAZAR_KEYS. Raises ConfigRefused."""
    from blazar.config.document import read
    from blazar.config.tables.api_keys import names_of
    entries = context.config.keys
    in_file = len(read(context.located.config_file).values.get("keys") or ())
    return [Known(name, entry, place if place < in_file else None)
            for place, (name, entry) in enumerate(zip(names_of(entries), entries, strict=True))]


def find(keys: list[Known], name: str) -> Known:
    """The API key of that name; case does not count. Raises UsageRefused, which names those that are here."""
    from blazar.config.refusal import nearest
    for key in keys:
        if key.name.lower() == name.lower():
            return key
    names = [key.name for key in keys]
    near = nearest(name, names)
    raise UsageRefused(f"there is no API key called {name}; " + (
        f"did you mean {near}?" if near else f"there is {', '.join(names)}" if names
        else "none is configured: `blazar keys add NAME` makes one"))


def tell(context: Context, name: str, here: bool) -> bool:
    """Have a running daemon read its API keys again; whether it goes by the change now. What is not so is said."""
    file = context.located.config_file
    told = context.tell_daemon("keys")
    if told is None:
        context.out.note("no daemon took it: it counts from the next start of `blazar serve` on")
        return False
    if (name in told["names"]) is not here:
        context.out.note(f"the running daemon has {told['file']} as its settings file, and {file.absolute()} was "
                         f"changed: name the right one with --config")
        return False
    context.out.note("the running daemon goes by it from now on; no restart is needed")
    return True
