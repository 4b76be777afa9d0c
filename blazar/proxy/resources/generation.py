"""The routes that make a model answer, and Ollama's forms of them that only load or unload it."""

from blazar.proxy.exchange import Answer, Exchange, Reply
from blazar.proxy.gateway import Gateway
from blazar.proxy.pipeline import LOADING, UNLOADING
from blazar.proxy.request import Request
from blazar.proxy.routes import Route
from blazar.proxy.stages.knobs import HEADER_PREFIX


def generate(gateway: Gateway, request: Request, route: Route) -> None:
    dialect = gateway.dialects[route.dialect]
    body = request.body()
    arrived = gateway.ledger.now()
    exchange = dialect.parse(route.operation, body, request.headers, request.id)
    exchange.started = arrived
    exchange.api_key = request.api_key
    exchange.sink = request.sink
    exchange.headers = request.own_headers()
    exchange.knobs.update((name, value) for name, value in request.headers.items() if name.startswith(HEADER_PREFIX))
    if not exchange.knobs.get("load_only"):
        gateway.pipeline(route.stages, gateway.dispatch)(exchange)
    elif exchange.keep_alive == 0:
        gateway.pipeline(UNLOADING, lambda unloading: _unload(gateway, unloading))(exchange)
    else:
        gateway.pipeline(LOADING, _say_done)(exchange)


def _unload(gateway: Gateway, exchange: Exchange) -> Reply:
    gateway.supervisor.evict(exchange.model)
    return _say_done(exchange)


def _say_done(exchange: Exchange) -> Reply:
    return exchange.answer(exchange.dialect.render(exchange, Answer()))
