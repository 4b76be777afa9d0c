"""Stage `admission`: a ready child and a lease of it, held until the answer has ended.

A child that the directory knows is leased at once. Otherwise, when that child drains, or lacks its projector and is
shown something, the supervisor is asked to make the model ready, which may take as long as a load.
"""

import time

from blazar.proxy.exchange import Exchange, Reply
from blazar.proxy.ledger import Ledger
from blazar.proxy.pipeline import Forward
from blazar.proxy.readiness import Readiness
from blazar.proxy.supervisor import Supervisor
from blazar.telemetry.metrics import Metrics
from blazar.transport import Endpoint


class Admission:
    def __init__(self, ledger: Ledger, supervisor: Supervisor, ready: Readiness, metrics: Metrics) -> None:
        self._ready = ready
        self._ledger = ledger
        self._supervisor = supervisor
        self._metrics = metrics

    def __call__(self, exchange: Exchange, forward: Forward) -> Reply:
        known = exchange.endpoint
        if known is not None and (known.projector or not exchange.shown) and self._ledger.take(known.child_id):
            leased, waited = known, 0.0
        else:
            arrived = self._ledger.now()
            leased = exchange.endpoint = self._load(exchange)
            waited = self._ledger.now() - arrived
        self._metrics.queue.observe(waited)
        try:
            return forward(exchange)
        finally:
            self._ledger.give_back(leased.child_id)
            if exchange.keep_alive is not None:
                self._supervisor.keep_alive(exchange.model, exchange.keep_alive)

    def _load(self, exchange: Exchange) -> Endpoint:
        """A lease of what the supervisor calls ready."""
        began = time.monotonic_ns()
        while True:
            asked_at = self._ledger.now()
            endpoint = self._ready(exchange)
            if self._ledger.take(endpoint.child_id, confirmed_at=asked_at):
                waited = time.monotonic_ns() - began
                exchange.load_ns += waited
                self._metrics.load.observe(waited / 1e9, exchange.model)
                return endpoint
