"""Anthropic's message batches: what a client sends of one, and how a batch and its results are told."""

import re
from collections.abc import Callable
from typing import Any

from blazar.errors import MessageBatchTooLarge, RequestRefused
from blazar.proxy.dialects.fields import objects, refuse
from blazar.proxy.dialects.times import rfc3339
from blazar.proxy.json import dumps, loads
from blazar.units import format_bytes

MOST = 10_000
"""Requests of one batch."""
MOST_BYTES = 10 << 20
"""Bytes of them as JSON; they go to the supervisor in one message, which must not outgrow its limit."""
_CUSTOM_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")

Row = dict[str, Any]


def requests(payload: dict[str, Any], pace: Callable[[], None] = lambda: None) -> list[tuple[str, str]]:
    """The requests of a new batch: (custom_id, JSON of its params). Raises RequestRefused, MessageBatchTooLarge."""
    given = objects(payload, "requests")
    if not given:
        raise RequestRefused("`requests` must hold at least one request: {\"custom_id\": \"a\", \"params\": {...}}")
    if len(given) > MOST:
        raise MessageBatchTooLarge(what=f"{len(given)} requests", most=MOST, most_bytes=format_bytes(MOST_BYTES))
    found: dict[str, str] = {}
    size = 0
    for position, request in enumerate(given):
        where = f"requests[{position}]."
        custom_id, params = request.get("custom_id"), request.get("params")
        if not isinstance(custom_id, str) or not _CUSTOM_ID.fullmatch(custom_id):
            refuse(f"{where}custom_id", "1 to 64 letters, digits, - and _", custom_id)
        if custom_id in found:
            refuse(f"{where}custom_id", "another one than those before it", custom_id)
        if not isinstance(params, dict):
            refuse(f"{where}params", "an object, the body of a message's request", params)
        found[custom_id] = dumps(params).decode()
        size += len(found[custom_id].encode())
        pace()
    if size > MOST_BYTES:
        raise MessageBatchTooLarge(what=format_bytes(size), most=MOST, most_bytes=format_bytes(MOST_BYTES))
    return list(found.items())


def batch(row: Row, results_url: str) -> dict[str, Any]:
    """A batch as it is told; its requests are counted as being processed until all of it has ended."""
    ended = row["ended_at"] is not None
    counts = {name: row["counts"].get(name, 0) if ended else 0
              for name in ("succeeded", "errored", "canceled", "expired")}
    return {"id": row["id"], "type": "message_batch", "processing_status": "ended" if ended else "in_progress",
            "request_counts": {"processing": 0 if ended else row["requests"], **counts},
            "created_at": rfc3339(row["created_at"]), "expires_at": rfc3339(row["expires_at"]),
            "ended_at": _time(row["ended_at"]), "cancel_initiated_at": _time(row["cancelled_at"]),
            "archived_at": None, "results_url": results_url if ended else None}


def page(listed: list[dict[str, Any]], more: bool) -> bytes:
    """A page of any of Anthropic's lists."""
    ids = [one["id"] for one in listed]
    return dumps({"data": listed, "has_more": more, "first_id": ids[0] if ids else None,
                  "last_id": ids[-1] if ids else None})


def result_line(row: Row) -> bytes:
    """One line of a batch's results."""
    result: dict[str, Any] = {"type": row["outcome"]}
    if row["outcome"] == "succeeded":
        result["message"] = loads(row["body"])
    elif row["outcome"] == "errored":
        result["error"] = loads(row["body"])
    return dumps({"custom_id": row["custom_id"], "result": result}) + b"\n"


def deleted(id: str) -> bytes:
    return dumps({"id": id, "type": "message_batch_deleted"})


def _time(epoch: int | None) -> str | None:
    return None if epoch is None else rfc3339(epoch)
