"""How an exchange gets a ready child: from what is known at once, else by a load, as long as its client waits."""

import time

from blazar.proxy import greens
from blazar.proxy.directory import Directory
from blazar.proxy.exchange import Exchange
from blazar.proxy.ledger import Ledger
from blazar.proxy.parking import Parking
from blazar.proxy.supervisor import Supervisor
from blazar.telemetry.metrics import Metrics
from blazar.transport import Endpoint


class Readiness:
    """Asks the supervisor for a ready child, and takes leases. `limit` is how many seconds are waited for one."""

    def __init__(self, supervisor: Supervisor, directory: Directory, ledger: Ledger, parking: Parking, limit: float,
                 metrics: Metrics) -> None:
        self._supervisor = supervisor
        self._directory = directory
        self._ledger = ledger
        self._parking = parking
        self._limit = limit
        self._metrics = metrics

    def __call__(self, exchange: Exchange) -> Endpoint:
        """Stop waiting when the client leaves or the exchange is ended; a load goes on, since others may want it."""
        if exchange.ended_by is not None:
            raise exchange.ended_by
        self._parking.enter(exchange, "load")
        with greens.interrupter(exchange.reason) as interrupt:
            exchange.interrupt = interrupt
            exchange.sink.watch(interrupt)
            try:
                with greens.Timeout(self._limit) as timeout:
                    endpoint = self._supervisor.ensure_ready(exchange.place, exchange.num_ctx, exchange.shown)
            except greens.Timeout as error:
                if error is not timeout:
                    raise
                raise self._parking.too_late(exchange, self._limit) from error
            finally:
                exchange.sink.unwatch()
                exchange.interrupt = None
                self._parking.leave(exchange)
        self._directory.trust(endpoint)
        if endpoint.ctx < exchange.num_ctx:
            self._directory.note_most(endpoint)
        return endpoint

    def lease(self, exchange: Exchange) -> Endpoint:
        """A lease of the exchange's child; `give_back` follows.

        A child that the directory knows is leased at once. Otherwise, when that child drains, or lacks its projector
        and is shown something, the supervisor is asked to make the model ready, which may take as long as a load.
        """
        known = exchange.endpoint
        if known is not None and (known.projector or not exchange.shown) and self._ledger.take(known.child_id):
            return known
        exchange.endpoint = leased = self._load(exchange)
        return leased

    def give_back(self, exchange: Exchange, endpoint: Endpoint) -> None:
        self._ledger.give_back(endpoint.child_id)
        if exchange.keep_alive is not None:
            self._supervisor.keep_alive(exchange.model, exchange.keep_alive)

    def serves(self, exchange: Exchange) -> bool:
        """Whether the exchange's child is still there, as far as is known; one that drains is, for who has a lease."""
        leased, known = exchange.endpoint, self._directory.endpoint(exchange.place)
        assert leased is not None, "somebody has leased it"
        return (known is not None and known.child_id == leased.child_id) or self._ledger.drains(leased.child_id)

    def _load(self, exchange: Exchange) -> Endpoint:
        """A lease of what the supervisor calls ready."""
        began = time.monotonic_ns()
        while True:
            asked_at = self._ledger.now()
            endpoint = self(exchange)
            if self._ledger.take(endpoint.child_id, confirmed_at=asked_at):
                waited = time.monotonic_ns() - began
                exchange.load_ns += waited
                self._metrics.load.observe(waited / 1e9, exchange.model)
                return endpoint
