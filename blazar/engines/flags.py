"""Settings that are flags of an engine, turned into argv, as far as the engine has them.

A flag is written only when the effective value differs from the setting's default, or the setting says
`emit="always"`: for llama-server many zeros mean something, while our default 0 means "leave it to the engine".
"""

from collections.abc import Iterable, Mapping
from typing import Any

from blazar.engines.manifest import Manifest
from blazar.errors import FlagMissing


class Gate:
    """Lets a flag through when the engine's manifest has it. Without a manifest every flag passes."""

    def __init__(self, manifest: Manifest | None, engine: str, model: str) -> None:
        """`engine` and `model` are how messages call them."""
        self._manifest = manifest
        self._model = model
        self._engine = engine
        self.skipped: list[str] = []
        """A sentence for each flag that was left out."""

    def may(self, what: str, *words: str) -> list[str]:
        """`words`, a flag and its value, or nothing when the engine lacks it; `what` asked for it."""
        lack = self._lack(words)
        if lack:
            self.skipped.append(f"{what} has no effect: {self._engine} {lack}")
        return [] if lack else list(words)

    def must(self, what: str, *words: str) -> list[str]:
        """`words`; raises FlagMissing when the engine lacks the flag."""
        lack = self._lack(words)
        if lack:
            raise FlagMissing(model=self._model, what=what, engine=self._engine, lack=lack)
        return list(words)

    def _lack(self, words: tuple[str, ...]) -> str:
        """What is wrong with a flag, for the end of a sentence; empty when nothing is."""
        if self._manifest is None or not words:
            return ""
        flag, *values = words
        if not self._manifest.has(flag):
            return f"has no {flag}"
        if values and not self._manifest.takes(flag, values[0]):
            return f"takes {', '.join(self._manifest.flags[flag].choices)} for {flag}, not {values[0]}"
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
        if value is not None and (setting.emit == "always" or value != setting.default):
            let = gate.must if setting.gate == "refuse" else gate.may
            words += let(setting.name, *spell(setting.flag, value))
    return words


def spell(flag: str, value: Any) -> list[str]:
    """One flag as argv words: a true switch stands alone, a false one is left out, lists are joined with commas."""
    if isinstance(value, bool):
        return [flag] if value else []
    if isinstance(value, (list, tuple)):
        return [flag, ",".join(str(item) for item in value)] if value else []
    return [flag, str(value)]
