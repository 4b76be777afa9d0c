"""OpenAI's files and batches: what a request for one says, and the objects that are answered."""

import re
from collections.abc import Mapping
from typing import Any

from blazar.errors import RequestRefused
from blazar.proxy.dialects.fields import mapping, metadata, refuse, text

ENDPOINTS = ("/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses")
PURPOSES = ("batch",)
SHORTEST, LONGEST = 3600, 30 * 86400
"""Seconds for which a file may be asked to be kept."""
COUNTED = ("total", "completed", "failed")
TIMES = ("in_progress_at", "finalizing_at", "completed_at", "failed_at", "expired_at", "cancelling_at", "cancelled_at")
_WINDOW = re.compile(r"([1-9][0-9]{0,2})h")
MOST_HOURS = 168


def purpose(fields: Mapping[str, str]) -> str:
    """That of an upload. Raises RequestRefused for what nothing here would read."""
    asked = fields.get("purpose")
    if asked not in PURPOSES:
        raise RequestRefused(f"`purpose` must be \"batch\", not {asked!r}: nothing here reads files of another purpose"
                             if asked is not None else "`purpose` is missing: send \"batch\", before the file")
    return asked


def lifetime(fields: Mapping[str, str]) -> int | None:
    """Seconds for which an upload is to be kept; None when it does not say."""
    return _lifetime(fields.get("expires_after[anchor]"), fields.get("expires_after[seconds]"), "expires_after")


def _lifetime(anchor: Any, seconds: Any, field: str) -> int | None:
    if anchor is None and seconds is None:
        return None
    if anchor != "created_at":
        refuse(f"{field}.anchor", "\"created_at\"", anchor)
    written = str(seconds)
    if not (written.isascii() and written.isdigit() and len(written) < 9 and SHORTEST <= int(written) <= LONGEST):
        refuse(f"{field}.seconds", f"from {SHORTEST} to {LONGEST}", seconds)
    return int(written)


def file(row: Mapping[str, Any]) -> dict[str, Any]:
    return {"id": row["id"], "object": "file", "bytes": row["size"], "created_at": row["created_at"],
            "expires_at": row["expires_at"], "filename": row["name"], "purpose": row["purpose"],
            "status": "processed", "status_details": None}


def wanted(payload: dict[str, Any], now: int) -> tuple[str, dict[str, Any]]:
    """The input file of a batch that is asked for, and what is kept of the request. Raises RequestRefused."""
    source = text(payload, "input_file_id")
    if not source:
        raise RequestRefused("`input_file_id` is missing: upload the requests with POST /v1/files, purpose \"batch\"")
    endpoint = text(payload, "endpoint")
    if endpoint not in ENDPOINTS:
        refuse("endpoint", f"one of {', '.join(ENDPOINTS)}", endpoint)
    window = text(payload, "completion_window")
    hours = _WINDOW.fullmatch(window)
    if hours is None or int(hours[1]) > MOST_HOURS:
        refuse("completion_window", f"\"24h\", or another number of hours up to {MOST_HOURS}", window)
    after = mapping(payload, "output_expires_after")
    kept = _lifetime(after.get("anchor"), after.get("seconds"), "output_expires_after")
    return source, {"endpoint": endpoint, "completion_window": window, "metadata": metadata(payload) or None,
                    "created_at": now, "expires_at": now + int(hours[1]) * 3600, "output_lifetime": kept}


def batch(row: Mapping[str, Any], body: Mapping[str, Any]) -> dict[str, Any]:
    """The object of a batch: its row, with the counts so far, and what was kept in it."""
    ended = "completed" in body
    failed = body["failed"] if ended else row["failed"]
    completed = body["completed"] if ended else row["answered"] - row["failed"]
    problems = body.get("problems")
    return {
        "id": row["id"], "object": "batch", "endpoint": body["endpoint"], "input_file_id": row["input_file"],
        "completion_window": body["completion_window"], "status": row["state"],
        "errors": {"object": "list", "data": problems} if problems else None,
        "output_file_id": body.get("output_file_id"), "error_file_id": body.get("error_file_id"),
        "created_at": body["created_at"], "expires_at": body["expires_at"],
        **{name: body.get(name) for name in TIMES},
        "request_counts": {"total": body.get("total", 0), "completed": completed, "failed": failed},
        "metadata": body["metadata"]}
