"""Stage `resolve`: the child that an attempt goes to, and its endpoint, None when it is not loaded.

With `replicas` a model has several. The first in the order of the request's own beginning that is loaded and has a
slot free gets it; when none has, one more is loaded, and when all are, the first one's queue it is.
"""

from blazar.config.config import Config
from blazar.config.effective import Overlays
from blazar.proxy.affinity import order, prefix_of
from blazar.proxy.directory import Directory
from blazar.proxy.exchange import Exchange
from blazar.proxy.ledger import Ledger
from blazar.transport import Endpoint, place_of


class Resolve:
    def __init__(self, directory: Directory, ledger: Ledger, config: Config) -> None:
        self._directory = directory
        self._ledger = ledger
        self._overlays = Overlays(config)

    def __call__(self, exchange: Exchange) -> None:
        place = exchange.model
        if not self._overlays.empty:
            settings = self._overlays.of(place)
            replicas = settings.get("replicas") or 1
            place = place if replicas == 1 else self._choose(exchange, replicas)
        exchange.place = place
        directory, tokens = self._directory, exchange.num_ctx
        exchange.endpoint = directory.reads(place, tokens) if tokens else directory.endpoint(place)

    def _choose(self, exchange: Exchange, replicas: int) -> str:
        prefix = prefix_of(exchange.payload, exchange.upstream_body or exchange.body)
        places = [place_of(exchange.model, number) for number in order(prefix, replicas)]
        loaded = {place: endpoint for place in places if (endpoint := self._directory.endpoint(place))}
        free = next((place for place, endpoint in loaded.items() if self._has_room(endpoint)), None)
        return free or next((place for place in places if place not in loaded), places[0])

    def _has_room(self, endpoint: Endpoint) -> bool:
        return self._ledger.use_of(endpoint.child_id)["in_flight"] < endpoint.slots
