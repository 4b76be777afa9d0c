"""The routes that make a model answer, and Ollama's forms of them that only load or unload it."""

from blazar.proxy.gateway import Gateway
from blazar.proxy.request import Request
from blazar.proxy.resources.exchanges import load_only, opened
from blazar.proxy.routes import Route


def generate(gateway: Gateway, request: Request, route: Route) -> None:
    exchange = opened(gateway, request, route)
    if exchange.knobs.get("load_only"):
        load_only(gateway, exchange)
    else:
        gateway.answering(route.stages, route.operation)(exchange)
