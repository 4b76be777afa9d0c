"""Configured settings that this version does not act on; tools/reference.py computes the table of those it does."""

from collections.abc import Iterator, Mapping
from typing import Any

from blazar.config.frozen import freeze
from blazar.config.registry import SETTINGS
from blazar.config.rule import Problem
from blazar.config.setting import Setting, Table
from blazar.config.tables.api_keys import LIMITS
from blazar.config.types import ListOf, MapOf, Type
from blazar.config.waiting import waits_for

UNSAFE = frozenset({"tls_cert", "tls_key", "keys[].models", *(f"keys[].{name}" for name in LIMITS)})
"""Without these a server is less safe than its owner wrote, so they are refused while they are not active."""


def inactive(values: Mapping[str, Any], active: frozenset[str],
             settings: Mapping[str, Setting] = SETTINGS) -> Iterator[Problem]:
    """A problem for each setting and field that differs from its default and is not in `active`."""
    for name, setting in settings.items():
        yield from _inactive(name, (name,), setting, values[name], active)


def _inactive(dotted: str, path: tuple, setting: Setting, value: Any, active: frozenset[str]) -> Iterator[Problem]:
    if freeze(value) == freeze(setting.default):
        return
    unsafe = [name for name in UNSAFE if name.startswith(dotted + "[]")] if dotted not in active else []
    if dotted in active or unsafe:
        yield from _within(dotted, path, setting.type, value, active)
    if dotted not in active:
        yield Problem(path, f"this version of Blazar does not act on it yet: it waits for {waits_for(dotted)}",
                      "remove it, or expect no effect"
                      if dotted not in UNSAFE else "remove it: without it the server would be less safe than written",
                      fatal=dotted in UNSAFE)


def _within(dotted: str, path: tuple, kind: Type, value: Any, active: frozenset[str]) -> Iterator[Problem]:
    if value is None:
        return
    if isinstance(kind, ListOf):
        for place, item in enumerate(value):
            yield from _within(dotted + "[]", (*path, place), kind.item, item, active)
    elif isinstance(kind, MapOf):
        for name, item in value.items():
            yield from _within(dotted + ".<name>", (*path, name), kind.item, item, active)
    elif isinstance(kind, Table):
        for name, field in kind.fields.items():
            yield from _inactive(f"{dotted}.{name}", (*path, name), field, value[name], active)
