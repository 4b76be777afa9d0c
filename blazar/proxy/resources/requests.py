"""The requests for models that are under way, or have lately ended, and cancelling one. An API key sees its own."""

from typing import Any

from blazar.errors import RequestMissing, SupervisorGone
from blazar.proxy import under_way
from blazar.proxy.dialects import queries
from blazar.proxy.finished import MOST
from blazar.proxy.gateway import Gateway
from blazar.proxy.json import dumps
from blazar.proxy.request import Request
from blazar.proxy.routes import Route

PATH = "/api/requests/"
USUAL = 20
"""Requests that have ended which are told where the query does not say."""


def listed(gateway: Gateway, request: Request, route: Route) -> None:
    count = queries.whole(queries.fields(request.query), "finished", USUAL, MOST, least=0)
    found = _told(gateway, request, count)
    request.answer(200, dumps({"requests": found["requests"], "finished": found["finished"]}))


def cancel(gateway: Gateway, request: Request, route: Route) -> None:
    id = request.path.removeprefix(PATH)
    cancelled = _told(gateway, request, 0, id)["cancelled"]
    if not cancelled:
        raise RequestMissing(id=id[:100])
    request.answer(200, dumps({"id": id, "cancelled": cancelled}))


def _told(gateway: Gateway, request: Request, finished: int, cancel: str | None = None) -> dict[str, Any]:
    """What all gateway workers tell; without a supervisor, what this one does."""
    key = request.api_key.name if request.api_key is not None else None
    try:
        return gateway.supervisor.requests(key, finished, cancel)
    except SupervisorGone:
        return under_way.told(gateway.ledger, key, finished, cancel)
