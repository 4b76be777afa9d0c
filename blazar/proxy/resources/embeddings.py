"""Embeddings. They are not relayed: order and number of a child's vectors are checked before a client gets them."""

from blazar.proxy.embedder import Embedder
from blazar.proxy.exchange import ClientGone, Exchange, Reply, Usage
from blazar.proxy.gateway import Gateway
from blazar.proxy.meter import estimated
from blazar.proxy.request import Request
from blazar.proxy.resources.exchanges import opened
from blazar.proxy.routes import Route


def embed(gateway: Gateway, request: Request, route: Route) -> None:
    def ask(exchange: Exchange) -> Reply:
        try:
            embedded = Embedder(gateway.dispatch.fetch, exchange).embed()
        except ClientGone:
            exchange.usage = estimated(exchange, 0)
            raise
        return exchange.answer(exchange.dialect.render_embedded(exchange, embedded),
                               Usage(prompt_tokens=embedded.prompt_tokens))

    gateway.pipeline(route.stages, ask)(opened(gateway, request, route))
