"""OpenAI's chat completions, and those of them that were sent with `store`: listed, looked up, annotated, forgotten."""

import logging

from blazar.errors import BlazarError, RequestRefused
from blazar.proxy.dialects import openai_stored, queries
from blazar.proxy.dialects.fields import boolean, metadata
from blazar.proxy.dialects.responses import page
from blazar.proxy.exchange import Exchange
from blazar.proxy.gateway import Gateway
from blazar.proxy.json import dumps, load_object
from blazar.proxy.keeping import KeepingSink
from blazar.proxy.request import Request
from blazar.proxy.resources.exchanges import opened
from blazar.proxy.routes import Route
from blazar.proxy.shelf import MOST, Shelf, Wanted
from blazar.units import format_bytes

log = logging.getLogger("blazar.proxy")


def create(gateway: Gateway, request: Request, route: Route) -> None:
    exchange = opened(gateway, request, route)
    if "store" in exchange.payload and boolean(exchange.payload, "store", default=False):
        _keep(_shelf(gateway, request), exchange)
    try:
        gateway.answering(route.stages)(exchange)
    finally:
        exchange.sink = request.sink  # one that keeps the answer holds the exchange, which would hold it


def listed(gateway: Gateway, request: Request, route: Route) -> None:
    query = queries.fields(request.query)
    wanted = Wanted(query.get("after"), queries.limit(query), queries.newest_first(query, "asc"),
                    _model(gateway, query.get("model")), queries.pairs(query))
    request.answer(200, page(*_shelf(gateway, request).page(wanted)))


def retrieve(gateway: Gateway, request: Request, route: Route) -> None:
    request.answer(200, dumps(_shelf(gateway, request).get(_id(request)).body))


def messages(gateway: Gateway, request: Request, route: Route) -> None:
    id = _id(request)
    turns = openai_stored.messages(id, _shelf(gateway, request).get(id).input)
    request.answer(200, page(*queries.part(turns, queries.fields(request.query), "asc")))


def update(gateway: Gateway, request: Request, route: Route) -> None:
    payload, id, shelf = load_object(request.body()), _id(request), _shelf(gateway, request)
    if "metadata" not in payload:
        raise RequestRefused("`metadata` is missing: send what to change, like {\"metadata\": {\"topic\": \"a\"}}")
    shelf.annotate(id, metadata(payload))
    request.answer(200, dumps(shelf.get(id).body))


def delete(gateway: Gateway, request: Request, route: Route) -> None:
    id = _id(request)
    _shelf(gateway, request).forget(id)
    request.answer(200, dumps({"id": id, "object": "chat.completion.deleted", "deleted": True}))


def _keep(shelf: Shelf, exchange: Exchange) -> None:
    """Have the answer kept as its bytes pass."""
    if len(exchange.body) > MOST:
        raise RequestRefused(f"a completion of so large a request cannot be stored, the limit is {format_bytes(MOST)}; "
                             "send \"store\": false")
    notes = metadata(exchange.payload)
    turns = load_object(exchange.body).get("messages")

    def keep(body: bytes) -> None:
        found = openai_stored.completion(body, exchange.stream)
        if found is None:
            log.warning("%s: the answer is not stored, since it is not a whole chat completion with an id", exchange.id)
        else:
            shelf.put(exchange.model, {**found, "metadata": notes}, turns if isinstance(turns, list) else [])

    exchange.sink = KeepingSink(exchange.sink, exchange.stream, keep, MOST)


def _model(gateway: Gateway, reference: str | None) -> str | None:
    """The canonical name of the model whose completions are wanted; that of one which is gone stays as it is."""
    try:
        return None if reference is None else gateway.directory.resolve(reference)
    except BlazarError:
        return reference


def _shelf(gateway: Gateway, request: Request) -> Shelf:
    return Shelf(gateway.supervisor, "completion", request.api_key)


def _id(request: Request) -> str:
    return request.path.split("/")[4]
