"""How many tokens a request would have as input, asked of the child that would answer it."""

from blazar.proxy.exchange import Exchange, Reply
from blazar.proxy.gateway import Gateway
from blazar.proxy.request import Request
from blazar.proxy.resources.exchanges import opened
from blazar.proxy.routes import Route
from blazar.proxy.tokens import input_tokens


def count(gateway: Gateway, request: Request, route: Route) -> None:
    def ask(exchange: Exchange) -> Reply:
        return exchange.answer(exchange.dialect.render_count(input_tokens(gateway.dispatch.fetch, exchange)))

    gateway.pipeline(route.stages, ask)(opened(gateway, request, route))
