"""The routes that make a model answer, and Ollama's forms of them that only load or unload it."""

from blazar.proxy.exchange import Answer, Exchange, Reply
from blazar.proxy.gateway import Gateway
from blazar.proxy.pipeline import LOADING, UNLOADING
from blazar.proxy.request import Request
from blazar.proxy.resources.exchanges import opened
from blazar.proxy.routes import Route


def generate(gateway: Gateway, request: Request, route: Route) -> None:
    exchange = opened(gateway, request, route)
    if not exchange.knobs.get("load_only"):
        gateway.answering(route.stages, route.operation)(exchange)
    elif exchange.keep_alive == 0:
        exchange.headers = request.own_headers()
        gateway.pipeline(UNLOADING, lambda unloading: _unload(gateway, unloading))(exchange)
    else:
        gateway.pipeline(LOADING, _say_done)(exchange)


def _unload(gateway: Gateway, exchange: Exchange) -> Reply:
    gateway.supervisor.evict(exchange.model)
    return _say_done(exchange)


def _say_done(exchange: Exchange) -> Reply:
    return exchange.answer(exchange.dialect.render(exchange, Answer()))
