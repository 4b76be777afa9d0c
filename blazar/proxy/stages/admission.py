"""Stage `admission`: a ready child, a lease of it and one of its slots, held until the answer has ended.

While a slot is free it is had at once. Otherwise the request is parked. Its lease counts meanwhile, so a child that is
to go first serves those who wait for it. When the child is lost, they go on to the one that comes after it.
"""

from blazar.proxy.exchange import Exchange, Reply
from blazar.proxy.ledger import Ledger
from blazar.proxy.parking import ChildLost, Lot, Parking
from blazar.proxy.pipeline import Forward
from blazar.proxy.readiness import Readiness
from blazar.telemetry.metrics import Metrics


class Admission:
    def __init__(self, ledger: Ledger, ready: Readiness, parking: Parking, metrics: Metrics) -> None:
        self._ledger = ledger
        self._ready = ready
        self._parking = parking
        self._metrics = metrics

    def __call__(self, exchange: Exchange, forward: Forward) -> Reply:
        arrived = self._ledger.now()
        while True:
            endpoint = self._ready.lease(exchange)
            try:
                lot = self._parking.lot(endpoint)
                charged = 0.0 if lot.take() else self._wait(exchange, lot)
                try:
                    self._metrics.queue.observe(self._ledger.now() - arrived, exchange.model)
                    return forward(exchange)
                finally:
                    lot.give_back(exchange, charged)
            except ChildLost:
                exchange.endpoint = None
            finally:
                self._ready.give_back(exchange, endpoint)

    def _wait(self, exchange: Exchange, lot: Lot) -> float:
        """Wait for a slot; what was counted for it."""
        began = self._ledger.now()
        try:
            ticket = self._parking.wait(exchange, lot)
        finally:
            exchange.queue_ns += int((self._ledger.now() - began) * 1e9)
        if not self._ready.serves(exchange):
            lot.leave(ticket)
            raise ChildLost
        return ticket.charged
