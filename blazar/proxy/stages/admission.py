"""Stage `admission`: a ready child, a lease of it and one of its slots, held until the answer has ended.

While a slot is free it is had at once. Otherwise the request is parked; its lease counts from then on, so a child that
is to go serves those who wait for it first. When the child is lost meanwhile, they go on to the one that comes after it.
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
                if not lot.take():
                    self._wait(exchange, lot)
                try:
                    self._metrics.queue.observe(self._ledger.now() - arrived, exchange.model)
                    return forward(exchange)
                finally:
                    lot.give_back(exchange, self._ledger.now())
            except ChildLost:
                exchange.endpoint = None
            finally:
                self._ready.give_back(exchange, endpoint)

    def _wait(self, exchange: Exchange, lot: Lot) -> None:
        began = self._ledger.now()
        try:
            self._parking.wait(exchange, lot)
        finally:
            exchange.queue_ns += int((self._ledger.now() - began) * 1e9)
        if not self._ready.serves(exchange):
            lot.give_back(exchange, self._ledger.now())
            raise ChildLost
