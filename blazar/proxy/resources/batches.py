"""OpenAI's batches: made, looked up, listed, cancelled. `batches/openai_source.py` works through them."""

import json
import secrets
import time
from typing import Any

from blazar.proxy.dialects import openai_batches, queries
from blazar.proxy.dialects.responses import page
from blazar.proxy.gateway import Gateway
from blazar.proxy.json import dumps, load_object
from blazar.proxy.request import Request
from blazar.proxy.routes import Route
from blazar.proxy.shelf import owner_of


def create(gateway: Gateway, request: Request, route: Route) -> None:
    source, body = openai_batches.wanted(load_object(request.body()), int(time.time()))
    row = gateway.supervisor.batches("put", owner=owner_of(request.api_key), object=f"batch_{secrets.token_hex(16)}",
                                     file=source, body=body)["row"]
    gateway.background.wake()
    request.answer(200, _shown(row))


def retrieve(gateway: Gateway, request: Request, route: Route) -> None:
    request.answer(200, _shown(_ask(gateway, request, "find")))


def cancel(gateway: Gateway, request: Request, route: Route) -> None:
    request.body()
    row = _ask(gateway, request, "cancel")
    gateway.background.wake()
    request.answer(200, _shown(row))


def listed(gateway: Gateway, request: Request, route: Route) -> None:
    query = queries.fields(request.query)
    answer = gateway.supervisor.batches("page", owner=owner_of(request.api_key), after=query.get("after"),
                                        limit=queries.limit(query))
    request.answer(200, page([_object(row) for row in answer["rows"]], answer["more"]))


def _ask(gateway: Gateway, request: Request, verb: str) -> dict[str, Any]:
    return gateway.supervisor.batches(verb, owner=owner_of(request.api_key), object=request.path.split("/")[3])["row"]


def _object(row: dict[str, Any]) -> dict[str, Any]:
    return openai_batches.batch(row, json.loads(row["body"]))


def _shown(row: dict[str, Any]) -> bytes:
    return dumps(_object(row))
