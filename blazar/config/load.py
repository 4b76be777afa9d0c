"""Load the settings: defaults, then the file, then the environment, then flags; checked, frozen, with origins."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from blazar.config.active import ACTIVE
from blazar.config.activity import inactive
from blazar.config.config import Config
from blazar.config.document import Document, read
from blazar.config.environment import given, misspelt, runtime
from blazar.config.frozen import freeze
from blazar.config.hoist import hoist
from blazar.config.refusal import KeyPath, Refusal, Refusals, each
from blazar.config.registry import SETTINGS
from blazar.config.rule import Problem
from blazar.config.rules import RULES
from blazar.errors import ConfigRefused

MAX_LISTED = 10
"""Problems told at once."""


def load(file: Path, env: Mapping[str, str], flags: Mapping[str, Any] = MappingProxyType({}), *,
         must_exist: bool = False, active: frozenset[str] = ACTIVE) -> Config:
    """The settings of `file`, overridden by `env` and by `flags` (by name of the setting; None = not given).

    A missing file means defaults, unless `must_exist` or BLAZAR_CONFIG names it. Raises ConfigRefused.
    """
    return load_document(read(file, must_exist or _named_by(env, file)), env, flags, active=active)


def load_document(document: Document, env: Mapping[str, str], flags: Mapping[str, Any] = MappingProxyType({}), *,
                  active: frozenset[str] = ACTIVE) -> Config:
    """The settings of a document that was read, or that is yet to be written. Raises ConfigRefused."""
    draft = _Draft(document)
    draft.take_file()
    draft.take_environment(env)
    draft.take_flags(flags)
    draft.raise_problems()
    draft.merge_lists()
    draft.apply_rules(active)
    draft.raise_problems()
    warnings = (*draft.warnings, *misspelt(env, SETTINGS))
    return Config(draft.values, draft.origins, document.file, warnings, draft.runtime)


def refuse_together(values: Mapping[str, Any], why: str) -> None:
    """Raises ConfigRefused when values that are right one by one do not go together; `why` says how they met."""
    for rule in RULES:
        for problem in rule.check(freeze(values)):
            if problem.fatal:
                raise ConfigRefused(where=f"{why}, key `{problem.path[-1]}`", problem=problem.problem,
                                    remedy=problem.remedy)


def _named_by(env: Mapping[str, str], file: Path) -> bool:
    named = env.get("BLAZAR_CONFIG")
    return named is not None and Path(named).expanduser() == file


class _Draft:
    """Values on their way into a Config, and what was found wrong with them."""

    def __init__(self, document: Document) -> None:
        self.values = {name: freeze(setting.default) for name, setting in SETTINGS.items()}
        self.origins: dict[str, str] = {}
        self.warnings: list[str] = []
        self.runtime: Mapping[str, Any] = {}
        self._document = document
        self._places: dict[str, KeyPath] = {}
        self._sources: dict[str, str] = {}
        self._problems: list[tuple[str, str, str]] = []

    def take_file(self) -> None:
        flat, refusals = hoist(self._document.values)
        for refusal in refusals:
            self._refuse(self._in_file(refusal.path), refusal)
        for name, (path, value) in flat.items():
            self._places[name] = path
            try:
                self._set(name, SETTINGS[name].type.check(value), "file")
            except (Refusal, Refusals) as error:
                for refusal in each(error):
                    self._refuse(self._in_file((*path, *refusal.path)), refusal)

    def take_environment(self, env: Mapping[str, str]) -> None:
        self.runtime, refused = runtime(env)
        for variable, refusal in refused.items():
            self._refuse(f"environment variable {variable}", refusal)
        for name, setting in SETTINGS.items():
            try:
                found = given(setting, env)
            except Refusals as error:
                self._refuse(f"environment variable {setting.variables[0]}", error.refusals[0])
                continue
            if found is None:
                continue
            source = f"environment variable {found.variable}"
            if found.ignored:
                self.warnings.append(found.ignored)
            if found.refusal:
                self._refuse(source, found.refusal)
            elif found.variable:
                added = (*self.values[name], *found.value) if setting.env_adds else found.value
                self._set(name, added, "env", source)

    def take_flags(self, flags: Mapping[str, Any]) -> None:
        for name, value in flags.items():
            kind = SETTINGS[name].type
            source = f"flag --{name.replace('_', '-')}"
            if value is None:
                continue
            try:
                self._set(name, kind.parse(value) if isinstance(value, str) else kind.check(value), "flag", source)
            except (Refusal, Refusals) as error:
                self._refuse(source, each(error)[0])

    def merge_lists(self) -> None:
        """Lists that are another spelling of a second one are joined to it."""
        for name, setting in SETTINGS.items():
            if setting.feeds and self.values[name]:
                joined = dict.fromkeys((*self.values[setting.feeds], *self.values[name]))
                self.values[setting.feeds] = tuple(joined)
                self.origins.setdefault(setting.feeds, self.origins[name])

    def apply_rules(self, active: frozenset[str]) -> None:
        found: list[Problem] = []
        for rule in RULES:
            found += rule.check(self.values)
        for problem in (*found, *inactive(self.values, active)):
            where = self._where(problem.path)
            if problem.fatal:
                self._problems.append((where, problem.problem, problem.remedy))
            else:
                self.warnings.append(f"{where}: {problem.problem}; {problem.remedy}")

    def raise_problems(self) -> None:
        listed = [ConfigRefused(where=where, problem=problem, remedy=remedy).message
                  for where, problem, remedy in self._problems]
        if len(listed) > MAX_LISTED:
            listed[MAX_LISTED:] = [f"and {len(listed) - MAX_LISTED} more"]
        if listed:
            raise ConfigRefused("\n".join(listed))

    def _set(self, name: str, value: Any, origin: str, source: str = "") -> None:
        self.values[name] = value
        self.origins[name] = origin
        self._sources[name] = source

    def _refuse(self, where: str, refusal: Refusal) -> None:
        self._problems.append((where, refusal.problem, refusal.remedy))

    def _where(self, path: KeyPath) -> str:
        """Where a value came from, for people."""
        name = str(path[0])
        if self._sources.get(name):
            return f"{self._sources[name]}, key `{path[-1]}`"
        return self._in_file((*self._places.get(name, (name,)), *path[1:]))

    def _in_file(self, path: KeyPath) -> str:
        line = self._document.line(path)
        place = f"{self._document.file}{f' line {line}' if line else ''}"
        words = [part for part in path if isinstance(part, str)]
        return f"{place}, key `{words[-1]}`" if words else place
