"""Stage `lease`: a ready child and a lease of it, held until the answer has ended, for what takes none of its slots."""

from blazar.proxy.exchange import Exchange, Reply
from blazar.proxy.pipeline import Forward
from blazar.proxy.readiness import Readiness


class Lease:
    def __init__(self, ready: Readiness) -> None:
        self._ready = ready

    def __call__(self, exchange: Exchange, forward: Forward) -> Reply:
        endpoint = self._ready.lease(exchange)
        try:
            return forward(exchange)
        finally:
            self._ready.give_back(exchange, endpoint)
