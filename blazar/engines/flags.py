"""Settings that are flags of an engine, turned into argv.

A flag is written only when the effective value differs from the setting's default, or the setting says
`emit="always"`: for llama-server many zeros mean something, while our default 0 means "leave it to the engine".
"""

from collections.abc import Iterable, Mapping
from typing import Any


def argv(lane: str, table: Iterable[Any], values: Mapping[str, Any], skip: frozenset[str] = frozenset()) -> list[str]:
    """Flags for all settings of `table` that belong to `lane`; those named in `skip` the lane computes itself."""
    words: list[str] = []
    for setting in table:
        if setting.lane != lane or not setting.flag or setting.name in skip:
            continue
        value = values.get(setting.name, setting.default)
        if value is not None and (setting.emit == "always" or value != setting.default):
            words += spell(setting.flag, value)
    return words


def spell(flag: str, value: Any) -> list[str]:
    """One flag as argv words: a true switch stands alone, a false one is left out, lists are joined with commas."""
    if isinstance(value, bool):
        return [flag] if value else []
    if isinstance(value, (list, tuple)):
        return [flag, ",".join(str(item) for item in value)] if value else []
    return [flag, str(value)]
