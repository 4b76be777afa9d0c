"""How many tokens a request would have as input, asked of the child that would answer it."""

from blazar.proxy.exchange import Exchange, Reply
from blazar.proxy.gateway import Gateway
from blazar.proxy.request import Request
from blazar.proxy.resources.exchanges import opened
from blazar.proxy.routes import Route
from blazar.proxy.tokens import prompt_tokens


def count(gateway: Gateway, request: Request, route: Route) -> None:
    def ask(exchange: Exchange) -> Reply:
        tokens = prompt_tokens(gateway.dispatch.fetch, exchange)
        return exchange.answer(exchange.dialect.render_count(tokens))

    gateway.pipeline(route.stages, ask)(opened(gateway, request, route))
