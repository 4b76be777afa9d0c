"""`Rule`: one condition between settings, with an example that it refuses and one that it accepts."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from blazar.config.refusal import KeyPath


@dataclass(frozen=True)
class Problem:
    """What a rule found: at which key, what is wrong, what to write instead. `fatal=False` makes it a warning."""

    path: KeyPath
    problem: str
    remedy: str
    fatal: bool = True


Check = Callable[[Mapping[str, Any]], Iterable[Problem]]


@dataclass(frozen=True)
class Rule:
    """`check` gets all values by name. The examples are TOML; the tests load both."""

    name: str
    check: Check
    refused: str
    accepted: str
    warns: bool = False
    """Whether it only warns."""


def rule(refused: str, accepted: str, warns: bool = False) -> Callable[[Check], Rule]:
    """Make a Rule of the function below."""
    return lambda check: Rule(check.__name__, check, refused, accepted, warns)


def entries(values: Mapping[str, Any], table: str) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    """The entries of a [[list]] with their paths."""
    for place, entry in enumerate(values[table]):
        yield (table, place), entry


def overrides(values: Mapping[str, Any]) -> Iterator[tuple[KeyPath, Mapping[str, Any]]]:
    """The entries of [model_overrides] with their paths."""
    for name, entry in values["model_overrides"].items():
        yield ("model_overrides", name), entry


def repeated(values: Mapping[str, Any], table: str, field: str) -> Iterator[tuple[KeyPath, str]]:
    """Path and value of each entry whose `field` an earlier entry has too. Case does not count."""
    seen: set[str] = set()
    for path, entry in entries(values, table):
        value = entry[field]
        if value is not None and value.lower() in seen:
            yield (*path, field), value
        elif value is not None:
            seen.add(value.lower())


def flags_of(arguments: tuple[str, ...] | None) -> Iterator[str]:
    """The flags of a list, without values glued to them by `=` or a space; llama.cpp reads `_` in them as `-`."""
    for argument in arguments or ():
        if argument.startswith("-"):
            flag = argument.partition("=")[0].split()[0]
            yield flag.replace("_", "-") if flag.startswith("--") else flag
