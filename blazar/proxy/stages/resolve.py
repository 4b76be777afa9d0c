"""Stage `resolve`: the endpoint that the directory knows for the model; None when it is not loaded."""

from blazar.proxy.directory import Directory
from blazar.proxy.exchange import Exchange, Reply
from blazar.proxy.pipeline import Forward


class Resolve:
    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def __call__(self, exchange: Exchange, forward: Forward) -> Reply:
        exchange.endpoint = self._directory.endpoint(exchange.model)
        return forward(exchange)
