"""Settings that are flags of an engine, turned into argv, as far as the engine has them.

A flag is written only when the effective value differs from the setting's default, or the setting says
`emit="always"`: for llama-server many zeros mean something, while our default 0 means "leave it to the engine".
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from blazar.engines.manifest import Manifest
from blazar.errors import FlagMissing


@dataclass(frozen=True)
class Written:
    """One flag that was let through."""

    what: str
    """What asked for it: a setting, or words for people."""
    words: tuple[str, ...]
    yields: bool
    """Whether a flag of the user's own takes its place: nobody asked for this one."""


class Gate:
    """Lets a flag through when the engine's manifest has it. Without a manifest every flag passes."""

    def __init__(self, manifest: Manifest | None, engine: str, model: str) -> None:
        """`engine` and `model` are how messages call them."""
        self.manifest = manifest or Manifest()
        self.model = model
        self.engine = engine
        self.skipped: list[str] = []
        """A sentence for each flag that was left out."""
        self.written: dict[str, Written] = {}

    def may(self, what: str, *words: str, yields: bool = False) -> list[str]:
        """`words`, a flag and its value, or nothing when the engine lacks it; `what` asked for it."""
        lack = self._lack(words)
        if lack:
            self.skipped.append(f"{what} has no effect: {self.engine} {lack}")
            return []
        return self._let(what, words, yields)

    def must(self, what: str, *words: str, yields: bool = False) -> list[str]:
        """`words`; raises FlagMissing when the engine lacks the flag."""
        lack = self._lack(words)
        if lack:
            raise FlagMissing(model=self.model, what=what, engine=self.engine, lack=lack)
        return self._let(what, words, yields)

    def _let(self, what: str, words: tuple[str, ...], yields: bool) -> list[str]:
        if words:
            self.written[words[0]] = Written(what, words, yields)
        return list(words)

    def _lack(self, words: tuple[str, ...]) -> str:
        """What is wrong with a flag, for the end of a sentence; empty when nothing is."""
        if not words:
            return ""
        flag, *values = words
        if not self.manifest.has(flag):
            return f"has no {flag}"
        if values and not self.manifest.takes(flag, values[0]):
            return f"takes {', '.join(self.manifest.flags[flag].choices)} for {flag}, not {values[0]}"
        return ""


def argv(lane: str, table: Iterable[Any], values: Mapping[str, Any], skip: frozenset[str] = frozenset(),
         gate: Gate | None = None) -> list[str]:
    """Flags for all settings of `table` that belong to `lane`; those named in `skip` the lane computes itself.

    What the engine lacks is left out or raises FlagMissing, as the setting's `gate` says.
    """
    gate = gate or Gate(None, lane, "")
    words: list[str] = []
    for setting in table:
        if setting.lane != lane or not setting.flag or setting.name in skip:
            continue
        value = values.get(setting.name, setting.default)
        changed = value != setting.default
        if value is not None and (setting.emit == "always" or changed):
            let = gate.must if setting.gate == "refuse" else gate.may
            words += let(setting.name, *spell(setting, value), yields=not changed)
    return words


def spell(setting: Any, value: Any) -> list[str]:
    """The value of a setting as argv words: a true switch stands alone, lists are joined with commas."""
    value = setting.written(value) if setting.written else value
    if isinstance(value, bool):
        flag = setting.flag if value else setting.no_flag
        return [flag] if flag else []
    if isinstance(value, (list, tuple)):
        return [setting.flag, ",".join(str(item) for item in value)] if value else []
    return [] if value is None else [setting.flag, str(value)]
