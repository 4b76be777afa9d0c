"""How an exchange waits for its model to be loaded: as long as its client does."""

from blazar.proxy import greens
from blazar.proxy.directory import Directory
from blazar.proxy.exchange import ClientGone, Exchange
from blazar.proxy.supervisor import Supervisor
from blazar.transport import Endpoint


class Readiness:
    """Asks the supervisor for a ready child."""

    def __init__(self, supervisor: Supervisor, directory: Directory) -> None:
        self._supervisor = supervisor
        self._directory = directory

    def __call__(self, exchange: Exchange) -> Endpoint:
        """Stop waiting when the client leaves or the exchange is ended; a load goes on, since others may want it."""
        if exchange.ended_by is not None:
            raise exchange.ended_by
        exchange.waits = "load"
        exchange.interrupt = greens.interrupter(
            lambda: ClientGone() if exchange.sink.gone or exchange.ended_by is None else exchange.ended_by)
        exchange.sink.watch(exchange.interrupt)
        try:
            endpoint = self._supervisor.ensure_ready(exchange.place, exchange.num_ctx, exchange.shown)
        finally:
            exchange.sink.unwatch()
            exchange.interrupt = None
            exchange.waits = ""
        self._directory.trust(endpoint)
        if endpoint.ctx < exchange.num_ctx:
            self._directory.note_most(endpoint)
        return endpoint
