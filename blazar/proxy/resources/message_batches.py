"""Anthropic's message batches: made, listed, looked up, cancelled, forgotten, and their results as JSON lines."""

import secrets
from typing import Any

from blazar.errors import MessageBatchCancelled, MessageBatchMissing, MessageBatchRuns, RequestRefused
from blazar.proxy.batches.anthropic_source import ids_of
from blazar.proxy.dialects import anthropic_batches, queries
from blazar.proxy.gateway import Gateway
from blazar.proxy.json import dumps
from blazar.proxy.json_scan import BodyReader
from blazar.proxy.request import Request
from blazar.proxy.routes import Route
from blazar.proxy.shelf import owner_of

MOST = 1000
"""Batches of one page."""


def create(gateway: Gateway, request: Request, route: Route) -> None:
    requests = anthropic_batches.requests(BodyReader(pause=gateway.pace).whole(request.body()), gateway.pace)
    row = _ask(gateway, request, "put", object=f"msgbatch_{secrets.token_hex(12)}", requests=requests)["row"]
    gateway.background.wake()
    _tell(gateway, request, row)


def listed(gateway: Gateway, request: Request, route: Route) -> None:
    query = queries.fields(request.query)
    after, before = query.get("after_id"), query.get("before_id")
    if after is not None and before is not None:
        raise RequestRefused("a list goes on from `after_id` or from `before_id`; send one of them")
    found = _ask(gateway, request, "page", after=after, before=before, limit=queries.limit(query, most=MOST))
    request.answer(200, anthropic_batches.page([_batch(gateway, request, row) for row in found["rows"]], found["more"]))


def retrieve(gateway: Gateway, request: Request, route: Route) -> None:
    _tell(gateway, request, _ask(gateway, request, "find", object=_id(request))["row"])


def cancel(gateway: Gateway, request: Request, route: Route) -> None:
    request.body()
    row = _found(request, _ask(gateway, request, "cancel", object=_id(request))["row"])
    for exchange in gateway.ledger.exchanges():
        if exchange.id.startswith(ids_of(row["number"])):
            exchange.end(MessageBatchCancelled())  # its result is settled, and nobody waits for more
    _tell(gateway, request, row)


def delete(gateway: Gateway, request: Request, route: Route) -> None:
    row = _found(request, _ask(gateway, request, "forget", object=_id(request))["row"])
    if row["ended_at"] is None:
        raise MessageBatchRuns(id=row["id"], wanted="be deleted", lever="cancel it first")
    request.answer(200, anthropic_batches.deleted(row["id"]))


def results(gateway: Gateway, request: Request, route: Route) -> None:
    """All results, page after page, in a body whose length is not known beforehand."""
    row = _found(request, _ask(gateway, request, "find", object=_id(request))["row"])
    if row["ended_at"] is None:
        raise MessageBatchRuns(id=row["id"], wanted="tell its results", lever="wait until `processing_status` is ended")
    after, more, sink = -1, True, request.sink
    sink.start(200, [*request.own_headers(), ("Content-Type", "application/x-jsonl")])
    while more:
        found = _ask(gateway, request, "results", object=row["id"], after=after)
        for line in found["rows"]:
            sink.write(anthropic_batches.result_line(line))
            after = line["position"]
            gateway.pace()
        more = found["more"]
    sink.finish()


def _tell(gateway: Gateway, request: Request, row: dict[str, Any] | None) -> None:
    request.answer(200, dumps(_batch(gateway, request, _found(request, row))))


def _batch(gateway: Gateway, request: Request, row: dict[str, Any]) -> dict[str, Any]:
    """The batch; where its results are is told by the names that the client itself came by."""
    told = request.headers.get("x-forwarded-proto", "")
    scheme = told if told in ("http", "https") else gateway.scheme
    where = f"{scheme}://{request.host}" if request.host else ""
    return anthropic_batches.batch(row, f"{where}/v1/messages/batches/{row['id']}/results")


def _found(request: Request, row: dict[str, Any] | None) -> dict[str, Any]:
    if row is None:
        raise MessageBatchMissing(id=_id(request)[:100])
    return row


def _ask(gateway: Gateway, request: Request, verb: str, **fields: Any) -> dict[str, Any]:
    return gateway.supervisor.message_batch(verb, owner=owner_of(request.api_key), **fields)


def _id(request: Request) -> str:
    return request.path.split("/")[4]
