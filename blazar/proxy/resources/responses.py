"""OpenAI's Responses: made, looked up, listed item by item, cancelled, forgotten."""

from typing import cast

from blazar.control import KEPT_DAYS
from blazar.errors import KnobRefused, NotCancellable, PreviousMissing, RequestRefused, StoredMissing
from blazar.proxy.dialects import queries
from blazar.proxy.dialects.responses import ResponsesDialect, page
from blazar.proxy.exchange import Exchange, Reply
from blazar.proxy.gateway import Gateway
from blazar.proxy.json import dumps
from blazar.proxy.request import Request
from blazar.proxy.resources.exchanges import opened
from blazar.proxy.routes import Route
from blazar.proxy.shelf import MOST, Shelf
from blazar.proxy.tokens import input_tokens
from blazar.units import format_bytes

PATIENCE = 15.0
"""Seconds for a cancelled response to end, and to be kept."""


def create(gateway: Gateway, request: Request, route: Route) -> None:
    exchange, shelf = _continued(gateway, request, route)
    draft, model = exchange.draft, exchange.asked
    if draft.response["store"] and len(exchange.upstream_body) > MOST:
        if exchange.payload.get("store"):
            raise RequestRefused(f"a response to so much input cannot be stored, the limit is {format_bytes(MOST)}; "
                                 "send \"store\": false")
    elif draft.response["store"]:
        exchange.keep = lambda response: shelf.put(exchange.model or model, response, draft.items)
    try:
        with gateway.writing.of(shelf.owner, draft.response["id"], exchange):
            gateway.answering(route.stages)(exchange)
    finally:
        exchange.keep = None  # it holds the exchange: both would wait, pictures and all, for Python's search for cycles


def count(gateway: Gateway, request: Request, route: Route) -> None:
    def ask(exchange: Exchange) -> Reply:
        return exchange.answer(exchange.dialect.render_count(input_tokens(gateway.dispatch.fetch, exchange)))

    gateway.pipeline(route.stages, ask)(_continued(gateway, request, route)[0])


def retrieve(gateway: Gateway, request: Request, route: Route) -> None:
    if queries.fields(request.query).get("stream") == "true":
        raise KnobRefused(knob="`stream`", reason="the events of a response are not kept",
                          remedy="leave it out, and the whole response comes")
    request.answer(200, dumps(_shelf(gateway, request).get(_id(request)).body))


def items(gateway: Gateway, request: Request, route: Route) -> None:
    kept = _shelf(gateway, request).get(_id(request))
    request.answer(200, page(*queries.part(kept.input, queries.fields(request.query), "desc")))


def delete(gateway: Gateway, request: Request, route: Route) -> None:
    id = _id(request)
    _shelf(gateway, request).forget(id)
    request.answer(200, dumps({"id": id, "object": "response", "deleted": True}))


def cancel(gateway: Gateway, request: Request, route: Route) -> None:
    request.body()
    id, shelf = _id(request), _shelf(gateway, request)
    running = gateway.writing.cancel(shelf.owner, id, PATIENCE)
    body = shelf.get(id).body
    if not running:
        raise NotCancellable(id=id, status=body["status"])
    request.answer(200, dumps(body))


def _continued(gateway: Gateway, request: Request, route: Route) -> tuple[Exchange, Shelf]:
    """The exchange with the whole conversation in it, and the caller's shelf."""
    exchange, shelf = opened(gateway, request, route), _shelf(gateway, request)
    previous = exchange.payload.get("previous_response_id")
    if previous:
        try:
            kept = shelf.get(previous)
        except StoredMissing as error:
            raise PreviousMissing(id=previous[:100], days=KEPT_DAYS) from error
        cast(ResponsesDialect, exchange.dialect).follow(exchange, [*kept.input, *kept.body["output"]])
    return exchange, shelf


def _shelf(gateway: Gateway, request: Request) -> Shelf:
    return Shelf(gateway.supervisor, "response", request.api_key)


def _id(request: Request) -> str:
    return request.path.split("/")[3]
