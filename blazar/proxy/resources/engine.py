"""llama-server's own paths, each for the model that the request names: its tokens, its slots, its properties."""

from typing import Any

from blazar.errors import ModelNotLoaded, ModelUnnamed
from blazar.proxy.dialects import queries
from blazar.proxy.exchange import Exchange, Reply, Retryable
from blazar.proxy.gateway import Gateway
from blazar.proxy.json import dumps
from blazar.proxy.request import Request
from blazar.proxy.resources.exchanges import opened
from blazar.proxy.routes import Route

HIDDEN = ("model_path",)
"""What is left out of the properties: where files lie on this machine."""


def ask(gateway: Gateway, request: Request, route: Route) -> None:
    """/tokenize and /detokenize: the child's answer to the body as it is."""
    def fetch(exchange: Exchange) -> Reply:
        return exchange.answer(dumps(gateway.dispatch.fetch(exchange, route.path, exchange.payload)))

    gateway.pipeline(route.stages, fetch)(opened(gateway, request, route))


def look(gateway: Gateway, request: Request, route: Route) -> None:
    """/slots and /props of a loaded model. It does not count as use: who watches keeps nothing loaded."""
    exchange = Exchange(id=request.id, dialect=gateway.dialects[route.dialect], operation=route.operation,
                        asked=_named(gateway, request), stream=False, body=b"", payload={})
    exchange.api_key, exchange.sink, exchange.headers = request.api_key, request.sink, request.own_headers()

    def read(exchange: Exchange) -> Reply:
        exchange.endpoint = gateway.directory.endpoint(exchange.model)
        if exchange.endpoint is None:
            raise ModelNotLoaded(model=exchange.model)
        try:
            return exchange.answer(dumps(_shown(gateway.dispatch.look(exchange, route.path))))
        except Retryable as error:
            raise ModelNotLoaded(model=exchange.model) from error

    gateway.pipeline(route.stages, read)(exchange)


def _named(gateway: Gateway, request: Request) -> str:
    """The model in the query; without one the only one that is loaded."""
    named = queries.fields(request.query).get("model")
    loaded = sorted({endpoint.model for endpoint in gateway.directory.endpoints.values()
                     if gateway.keys.allows(request.api_key, endpoint.model)})
    if named:
        return named
    if len(loaded) != 1:
        raise ModelUnnamed(loaded=", ".join(loaded) or "none")
    return loaded[0]


def _shown(value: Any) -> Any:
    return {name: one for name, one in value.items() if name not in HIDDEN} if isinstance(value, dict) else value
