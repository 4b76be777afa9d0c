"""Stage `trace`: the exchange is under way, and carries its request id; a cancelled one is counted."""

from blazar.proxy.exchange import ClientGone, Exchange, Reply
from blazar.proxy.ledger import Ledger
from blazar.proxy.pipeline import Forward


class Trace:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def __call__(self, exchange: Exchange, forward: Forward) -> Reply:
        exchange.started = self._ledger.now()
        self._ledger.enter(exchange)
        try:
            return forward(exchange)
        except ClientGone as cause:
            self._ledger.cancelled(cause)
            raise
        finally:
            self._ledger.leave(exchange)
