"""Embeddings. They are not relayed: order and number of a child's vectors are checked before a client gets them."""

from blazar.errors import RequestRefused
from blazar.proxy.embedder import Embedder
from blazar.proxy.exchange import ClientGone, Embedded, Exchange, Reply, Usage
from blazar.proxy.gateway import Gateway
from blazar.proxy.meter import estimated
from blazar.proxy.request import Request
from blazar.proxy.resources.exchanges import load_only, opened
from blazar.proxy.routes import Route
from blazar.proxy.token_embedder import TokenEmbedder
from blazar.proxy.vectors import shortened


def embed(gateway: Gateway, request: Request, route: Route) -> None:
    def ask(exchange: Exchange) -> Reply:
        try:
            embedded = _shortened(exchange, _embedder(gateway, exchange).embed())
        except ClientGone:
            exchange.usage = estimated(exchange, 0)
            raise
        return exchange.answer(exchange.dialect.render_embedded(exchange, embedded),
                               Usage(prompt_tokens=embedded.prompt_tokens))

    exchange = opened(gateway, request, route)
    if exchange.knobs.get("load_only"):
        load_only(gateway, exchange)
    else:
        gateway.pipeline(route.stages, ask)(exchange)


def _embedder(gateway: Gateway, exchange: Exchange) -> Embedder:
    model = gateway.directory.models[exchange.model]
    if not model.get("late_chunking"):
        return Embedder(gateway.dispatch.fetch, exchange)
    return TokenEmbedder(gateway.dispatch.fetch, gateway.dispatch.fetch_rows, exchange, model.get("pooling") or 0,
                         gateway.late_chunking_max)


def _shortened(exchange: Exchange, embedded: Embedded) -> Embedded:
    """The vectors with as many numbers as were asked for."""
    wanted = exchange.inputs.dimensions if exchange.inputs is not None else 0
    if not wanted:
        return embedded
    length = len(embedded.vectors[0])
    if wanted > length:
        raise RequestRefused(f"`dimensions` is {wanted}, and the vectors of {exchange.model} have {length}: ask for at "
                             "most as many")
    return Embedded([shortened(vector, wanted) for vector in embedded.vectors], embedded.prompt_tokens)
