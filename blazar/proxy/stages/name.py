"""Stage `name`: the canonical name of the model that was asked for."""

from blazar.proxy.directory import Directory
from blazar.proxy.exchange import Exchange


class Name:
    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def __call__(self, exchange: Exchange) -> None:
        exchange.model = self._directory.resolve(exchange.asked)
        exchange.context_length = self._directory.models[exchange.model].get("context_length") or 0
