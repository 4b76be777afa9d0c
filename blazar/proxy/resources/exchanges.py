"""What the resources that serve exchanges share: how one is opened."""

from blazar.proxy.exchange import Exchange
from blazar.proxy.gateway import Gateway
from blazar.proxy.request import Request
from blazar.proxy.routes import Route
from blazar.proxy.stages.knobs import HEADER_PREFIX


def opened(gateway: Gateway, request: Request, route: Route) -> Exchange:
    """The exchange for a request, as its dialect reads it. Raises RequestRefused and its kin."""
    body = request.body()
    arrived = gateway.ledger.now()
    exchange = gateway.dialects[route.dialect].parse(route.operation, body, request.headers, request.id)
    exchange.started = arrived
    exchange.api_key = request.api_key
    exchange.sink, exchange.peer = request.sink, request.sink.peer
    exchange.path = route.path
    exchange.headers = request.own_headers()
    knobs = [name for name in request.headers if name.startswith(HEADER_PREFIX)]
    for name in knobs:
        exchange.knobs[name] = request.headers[name]
    return exchange
