"""`Config`: the loaded settings, frozen. Passed as an argument to whoever needs them."""

from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from blazar.config.environment import VARIABLES
from blazar.config.frozen import freeze, thaw
from blazar.config.refusal import nearest
from blazar.config.registry import SETTINGS
from blazar.config.setting import redact


class Config:
    """Every setting by name: `config.port`, or `config["port"]` where the name is data.

    Lists are tuples and tables read-only mappings. `path` is the file it was read from, `warnings` are texts for
    whoever starts Blazar, `runtime` holds the variables that are no settings.
    """

    __slots__ = ("_origins", "_values", "path", "runtime", "warnings")

    def __init__(self, values: Mapping[str, Any], origins: Mapping[str, str], path: Path,
                 warnings: tuple[str, ...] = (), runtime: Mapping[str, Any] = MappingProxyType({})) -> None:
        for name, value in (("_values", freeze(values)), ("_origins", MappingProxyType(dict(origins))),
                            ("path", path), ("warnings", warnings), ("runtime", runtime)):
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self._values[name]
        except KeyError:
            near = nearest(name, self._values)
            raise AttributeError(f"there is no setting {name}" + (f"; did you mean {near}?" if near else "")) from None

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("a Config is frozen; load another one")

    def __repr__(self) -> str:
        return f"<Config from {self.path}>"

    def origin(self, name: str) -> str:
        """Where a value comes from: default, file, env or flag."""
        return self._origins.get(name, "default")

    def redacted(self, name: str) -> Any:
        """A value as plain data with its secrets hidden, for printing."""
        return thaw(redact(SETTINGS[name], self._values[name]))

    def keeping(self, other: "Config", names: Collection[str]) -> "Config":
        """The same, with the values and origins that `other` has for these names."""
        values = {name: (other if name in names else self)[name] for name in self._values}
        origins = {name: (other if name in names else self).origin(name) for name in self._values}
        return Config(values, origins, self.path, self.warnings, self.runtime)

    def as_dict(self) -> dict[str, Any]:
        """All values by name as plain, JSON-safe data, secrets included; `from_dict` is the way back."""
        return thaw(self._values)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "Config":
        """The settings that `as_dict` flattened; what is missing has its default. Origins are not kept: what differs
        from its default counts as a flag."""
        unknown = set(plain) - set(SETTINGS)
        if unknown:
            raise ValueError(f"not settings: {', '.join(sorted(unknown))}")
        values = {name: setting.default if plain.get(name) is None else setting.type.check(plain[name])
                  for name, setting in SETTINGS.items()}
        origins = {name: "flag" for name, setting in SETTINGS.items()
                   if freeze(values[name]) != freeze(setting.default)}
        return cls(values, origins, Path(), runtime={name: one.default for name, one in VARIABLES.items()})
