"""Stage `name`: the canonical name of the model that was asked for, and what was given with it."""

from blazar.proxy.directory import Directory
from blazar.proxy.exchange import Exchange
from blazar.proxy.preset import Preset


class Name:
    def __init__(self, directory: Directory, preset: Preset) -> None:
        self._directory = directory
        self._preset = preset

    def __call__(self, exchange: Exchange) -> None:
        exchange.model = self._directory.resolve(exchange.asked)
        model = self._directory.models[exchange.model]
        exchange.context_length = model.get("context_length") or 0
        if "defaults" in model:
            self._preset.add(exchange, model["defaults"])
