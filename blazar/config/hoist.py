"""From the tables of a file to flat keys: group tables are opened, and what has no home is refused."""

from collections.abc import Mapping
from typing import Any

from blazar.config.refusal import KeyPath, Refusal, nearest
from blazar.config.registry import GROUPS, SETTINGS
from blazar.config.setting import Setting, Table

Flat = dict[str, tuple[KeyPath, Any]]
"""By name of the setting: where it was written, and what."""


def hoist(values: Mapping[str, Any], settings: Mapping[str, Setting] = SETTINGS) -> tuple[Flat, list[Refusal]]:
    """The keys of a parsed file by name, and what is refused: unknown names, and keys that stand in the wrong place."""
    flat: Flat = {}
    refusals: list[Refusal] = []
    for name, value in values.items():
        if name in GROUPS and (isinstance(value, dict) or name not in settings):
            if isinstance(value, dict):
                refusals += _open_group(name, value, flat, settings)
            else:
                refusals.append(Refusal(f"`{name}` is a group of keys", f"write [{name}] and its keys below it",
                                        (name,)))
        elif name in settings:
            flat[name] = ((name,), value)
        else:
            refusals.append(_unknown(name, settings))
    refusals += _doubles(values, settings)
    return flat, refusals


def _open_group(group: str, table: Mapping[str, Any], flat: Flat, settings: Mapping[str, Setting]) -> list[Refusal]:
    refusals = []
    for name, value in table.items():
        setting = settings.get(name)
        if setting is None:
            near = nearest(name, settings)
            hint = f"did you mean `{near}`? {_home(settings[near])}" if near else "`blazar config list` shows all keys"
            refusals.append(Refusal("there is no key of that name", hint, (group, name)))
        elif setting.group != group:
            refusals.append(Refusal(f"`{name}` does not belong to [{group}]", _home(setting), (group, name)))
        else:
            flat.setdefault(name, ((group, name), value))
    return refusals


def _doubles(values: Mapping[str, Any], settings: Mapping[str, Setting]) -> list[Refusal]:
    return [Refusal(f"`{name}` is written at the top of the file and in [{group}] too", "keep one of the two",
                    (group, name))
            for group in GROUPS if isinstance(values.get(group), dict)
            for name in values[group] if name != group and name in values and name in settings
            and settings[name].group == group]


def _home(setting: Setting) -> str:
    top = "write it at the top of the file, above the first [table]"
    return f"{top}, or in [{setting.group}]" if setting.group else top


def _unknown(name: str, settings: Mapping[str, Setting]) -> Refusal:
    if name == "sdcpp":
        return Refusal("there is no [sdcpp] table", "image settings are the sdcpp_* keys, at the top of the file or in "
                       "[diffusion]; steps, size and seed come with each request", (name,))
    near = nearest(name, [*settings, *GROUPS])
    if near is None:
        return Refusal("there is no key of that name", "`blazar config list` shows all keys", (name,))
    shown = f"[{near}]" if near in GROUPS or isinstance(settings[near].type, Table) else f"`{near}`"
    return Refusal("there is no key of that name", f"did you mean {shown}?", (name,))
