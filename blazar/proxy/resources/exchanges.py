"""What the resources that serve exchanges share: how one is opened, and what becomes of one that asks nothing."""

from blazar.proxy.exchange import Answer, Exchange, Reply
from blazar.proxy.gateway import Gateway
from blazar.proxy.pipeline import LOADING, UNLOADING
from blazar.proxy.request import Request
from blazar.proxy.routes import Route


def opened(gateway: Gateway, request: Request, route: Route) -> Exchange:
    """The exchange for a request, as its dialect reads it. Raises RequestRefused and its kin."""
    body = request.body()
    arrived = gateway.ledger.now()
    exchange = gateway.dialects[route.dialect].parse(route.operation, body, request.headers, request.id)
    exchange.started = arrived
    exchange.api_key = request.api_key
    exchange.sink, exchange.peer = request.sink, request.peer
    exchange.path = route.path
    if request.background:
        exchange.background = True
    exchange.headers = request.plain_headers() if "quota" in route.stages else request.own_headers()
    if request.facts.knobs:
        exchange.knobs.update(request.facts.knobs)
    return exchange


def load_only(gateway: Gateway, request: Request, exchange: Exchange) -> None:
    """Load the model, or unload it when that is what the exchange's keep_alive says, and say that it is done."""
    if exchange.keep_alive == 0:
        exchange.headers = request.own_headers()
        gateway.pipeline(UNLOADING, lambda unloading: _unload(gateway, unloading))(exchange)
    else:
        gateway.pipeline(LOADING, _say_done)(exchange)


def _unload(gateway: Gateway, exchange: Exchange) -> Reply:
    gateway.supervisor.evict(exchange.model)
    return _say_done(exchange)


def _say_done(exchange: Exchange) -> Reply:
    return exchange.answer(exchange.dialect.render(exchange, Answer()))
