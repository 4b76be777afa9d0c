"""Stage `retry`: one more attempt, when the first one failed before any byte of an answer came.

A child that sends no answer in time is examined first: one that still works stays, and its client is told so.
"""

from blazar.errors import ChildSilent, ChildWedged
from blazar.proxy.directory import Directory
from blazar.proxy.exchange import Exchange, Reply, Retryable
from blazar.proxy.pipeline import Forward
from blazar.proxy.warden import Warden
from blazar.telemetry.metrics import Metrics


class Retry:
    def __init__(self, directory: Directory, metrics: Metrics, warden: Warden) -> None:
        self._directory = directory
        self._metrics = metrics
        self._warden = warden

    def __call__(self, exchange: Exchange, forward: Forward) -> Reply:
        try:
            return self._attempt(exchange, forward)
        except Retryable:
            self._metrics.retries.add()
        try:
            return self._attempt(exchange, forward)
        except Retryable as again:
            raise again.error from again

    def _attempt(self, exchange: Exchange, forward: Forward) -> Reply:
        """Raises Retryable when another one is worth it."""
        try:
            return forward(exchange)
        except ChildSilent as silent:
            if exchange.endpoint is None or not self._warden.ends(exchange.endpoint):
                raise
            self._go_on(exchange)
            raise Retryable(ChildWedged(model=exchange.model)) from silent
        except Retryable as failed:
            if failed.unreachable and exchange.endpoint is not None:
                self._directory.suspect(exchange.endpoint)
            self._go_on(exchange)
            raise

    @staticmethod
    def _go_on(exchange: Exchange) -> None:
        """Raises the reason when not only the attempt was ended."""
        ended, exchange.ended_by = exchange.ended_by, None
        if ended is not None and not isinstance(ended, Retryable):
            exchange.ended_by = ended
            raise ended
