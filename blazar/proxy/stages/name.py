"""Stage `name`: the canonical name of the model that was asked for, and what was given with it or configured for it, or
for the alias under which it was asked for."""

from collections.abc import Mapping
from typing import Any

from blazar.config.config import Config
from blazar.config.effective import Overlays
from blazar.proxy.aliases import HEADER, MODEL_HEADER, Alias
from blazar.proxy.directory import REMEMBERED, Directory
from blazar.proxy.exchange import Exchange
from blazar.proxy.preset import Preset


class Name:
    def __init__(self, directory: Directory, preset: Preset, config: Config) -> None:
        self._directory = directory
        self._overlays = Overlays(config)
        self._preset = preset
        self._mark: object = None
        """Of the directory, when it told what is remembered."""
        self._meant: dict[str, Meant] = {}

    def __call__(self, exchange: Exchange) -> None:
        if self._mark is not self._directory.mark:
            self._mark, self._meant = self._directory.mark, {}
        meant = self._meant.get(exchange.asked) or self._find(exchange.asked)
        exchange.model = meant.model
        exchange.context_length = meant.context_length
        if exchange.num_ctx and meant.context_length:
            exchange.num_ctx = min(exchange.num_ctx, meant.context_length)
        if meant.adds:
            self._add(exchange, meant)

    def _find(self, asked: str) -> "Meant":
        model = self._directory.resolve(asked)
        settings = self._overlays.of(model)
        meant = Meant(model, self._directory.models[model], settings.get("sampler_defaults") or {},
                      self._directory.preset(asked))
        if len(self._meant) >= REMEMBERED:
            self._meant = {}
        self._meant[asked] = meant
        return meant

    def _add(self, exchange: Exchange, meant: "Meant") -> None:
        alias = meant.alias
        if alias is not None:
            exchange.alias = alias.name
            exchange.headers += [(HEADER, alias.name), (MODEL_HEADER, exchange.model)]
        if meant.shapes:
            self._preset.add(exchange, meant.defaults, meant.sampler, alias)


class Meant:
    """What a spelling means, until the directory is another one."""

    def __init__(self, model: str, entry: Mapping[str, Any], sampler: Mapping[str, Any], alias: Alias | None) -> None:
        self.model = model
        self.context_length: int = entry.get("context_length") or 0
        self.defaults: Mapping[str, Any] = entry.get("defaults") or {}
        self.sampler = sampler
        self.alias = alias
        self.shapes = "defaults" in entry or bool(sampler) or (alias is not None and alias.shapes)
        """Whether the child is asked for more than the request says."""
        self.adds = self.shapes or alias is not None
