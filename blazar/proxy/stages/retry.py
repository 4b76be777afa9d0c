"""Stage `retry`: one more attempt, when the first one failed before any byte of an answer came."""

from blazar.proxy.directory import Directory
from blazar.proxy.exchange import Exchange, Reply, Retryable
from blazar.proxy.pipeline import Forward
from blazar.telemetry.metrics import Metrics


class Retry:
    def __init__(self, directory: Directory, metrics: Metrics) -> None:
        self._directory = directory
        self._metrics = metrics

    def __call__(self, exchange: Exchange, forward: Forward) -> Reply:
        try:
            return forward(exchange)
        except Retryable as failed:
            if failed.unreachable and exchange.endpoint is not None:
                self._directory.suspect(exchange.endpoint)
        self._metrics.retries.add()
        try:
            return forward(exchange)
        except Retryable as again:
            raise again.error from again
