"""Settings of one model: the general values, over them those given with it, over them its [model_overrides.<name>]."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from blazar.config.config import Config
from blazar.config.registry import SETTINGS
from blazar.config.tables.overrides import FIELDS

INHERITED_WHEN_EMPTY = ("rpc_servers", "tensor_split")
"""Fields whose empty text means "as in general" and not "none"."""
NONE: Mapping[str, Any] = MappingProxyType({})


def effective(config: Config, model: str, own: Mapping[str, Any] = MappingProxyType({})) -> Mapping[str, Any]:
    """Every setting by name as it holds for `model`, with which the settings `own` were given; fields only overrides
    have stand under their own names."""
    values = {**{name: config[name] for name in SETTINGS}, **own}
    replaced = {setting.overlay: name for name, setting in SETTINGS.items() if setting.overlay}
    override = overlay(config, model)
    for declared in FIELDS:
        field = declared.name
        value = override.get(field, declared.default)
        name = replaced.get(field, field)
        if isinstance(value, Mapping) and name in SETTINGS:
            values[name] = MappingProxyType({**values[name], **{key: one for key, one in value.items()
                                                                if one is not None}})
        elif name not in values or not (value is None or (value == "" and field in INHERITED_WHEN_EMPTY)):
            values[name] = value
    return MappingProxyType(values)


def overlay(config: Config, model: str) -> Mapping[str, Any]:
    """The [model_overrides] entry for `model`, compared without regard to case: the full name, or else the name
    without its variant, which covers all variants."""
    overrides = {canonical(name): entry for name, entry in config.model_overrides.items()}
    name = canonical(model)
    return overrides.get(name) or overrides.get(name.rpartition(":")[0] or name) or {}


class Overlays:
    """`overlay` for one configuration, at no cost where it overrides nothing."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.empty: bool = not config.model_overrides
        """There is an entry for no model."""

    def of(self, model: str) -> Mapping[str, Any]:
        """The entry for `model`, empty when there is none."""
        return NONE if self.empty else overlay(self._config, model)


def canonical(name: str) -> str:
    return name.strip().lower().removesuffix(":latest")
