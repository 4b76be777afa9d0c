"""Stage `resolve`: the endpoint that the directory knows for the model; None when it is not loaded."""

from blazar.proxy.directory import Directory
from blazar.proxy.exchange import Exchange


class Resolve:
    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def __call__(self, exchange: Exchange) -> None:
        exchange.endpoint = self._directory.endpoint(exchange.model)
