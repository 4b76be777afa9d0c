"""Stage `name`: the canonical name of the model that was asked for, and what was given with it or configured for it, or
for the alias under which it was asked for."""

from blazar.config.config import Config
from blazar.config.effective import Overlays
from blazar.proxy.aliases import HEADER, MODEL_HEADER, Alias
from blazar.proxy.directory import Directory
from blazar.proxy.exchange import Exchange
from blazar.proxy.preset import Preset


class Name:
    def __init__(self, directory: Directory, preset: Preset, config: Config) -> None:
        self._directory = directory
        self._overlays = Overlays(config)
        self._preset = preset

    def __call__(self, exchange: Exchange) -> None:
        exchange.model = self._directory.resolve(exchange.asked)
        model = self._directory.models[exchange.model]
        exchange.context_length = model.get("context_length") or 0
        if exchange.num_ctx and exchange.context_length:
            exchange.num_ctx = min(exchange.num_ctx, exchange.context_length)
        settings = self._overlays.of(exchange.model)
        sampler = settings.get("sampler_defaults")
        alias = self._directory.preset(exchange.asked)
        if alias is not None:
            self._note(exchange, alias)
        if "defaults" in model or sampler or (alias is not None and alias.shapes):
            self._preset.add(exchange, model.get("defaults") or {}, sampler or {}, alias)

    @staticmethod
    def _note(exchange: Exchange, alias: Alias) -> None:
        exchange.alias = alias.name
        exchange.headers += [(HEADER, alias.name), (MODEL_HEADER, exchange.model)]
