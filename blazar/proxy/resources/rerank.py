"""Documents ordered by how well they answer a query, scored by a model that was made for it."""

from blazar.proxy.dialects.rerank import ranked
from blazar.proxy.exchange import Exchange, Reply, Usage
from blazar.proxy.gateway import Gateway
from blazar.proxy.json import dumps
from blazar.proxy.request import Request
from blazar.proxy.reranker import rerank
from blazar.proxy.resources.exchanges import opened
from blazar.proxy.routes import Route


def order(gateway: Gateway, request: Request, route: Route) -> None:
    def ask(exchange: Exchange) -> Reply:
        scores, tokens = rerank(gateway.dispatch.fetch, exchange)
        return exchange.answer(dumps(ranked(exchange, scores, tokens)), Usage(prompt_tokens=tokens))

    gateway.pipeline(route.stages, ask)(opened(gateway, request, route))
