"""Stage `name`: the canonical name of the model that was asked for, and what was given with it or configured for it."""

from blazar.config.config import Config
from blazar.config.effective import Overlays
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
        sampler = self._overlays.of(exchange.model).get("sampler_defaults")
        if "defaults" in model or sampler:
            self._preset.add(exchange, model.get("defaults") or {}, sampler or {})
