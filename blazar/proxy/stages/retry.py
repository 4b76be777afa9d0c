"""Stage `retry`: one more attempt, when the first one failed before any byte of an answer came."""

from blazar.proxy.directory import Directory
from blazar.proxy.exchange import Exchange, Reply, Retryable
from blazar.proxy.pipeline import Forward


class Retry:
    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def __call__(self, exchange: Exchange, forward: Forward) -> Reply:
        try:
            return forward(exchange)
        except Retryable as failed:
            if failed.unreachable and exchange.endpoint is not None:
                self._directory.suspect(exchange.endpoint)
        try:
            return forward(exchange)
        except Retryable as again:
            raise again.error from again
