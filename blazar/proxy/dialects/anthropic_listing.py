"""Models as Anthropic lists them."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from blazar.proxy.dialects import queries
from blazar.proxy.dialects.anthropic_batches import page
from blazar.proxy.dialects.times import rfc3339
from blazar.transport import Endpoint

MOST = 1000
"""Models of one page."""


def models(listed: Mapping[str, Mapping[str, Any]], loaded: Mapping[str, Endpoint], query: dict[str, str]) -> bytes:
    """The page of a list of models, by name, that is wanted: after `after_id`, or right before `before_id`."""
    names, limit = list(listed), queries.limit(query, most=MOST)
    after, before = query.get("after_id"), query.get("before_id")
    if after is not None:
        names = names[names.index(after) + 1:] if after in names else []
    if before is not None:
        names = names[:names.index(before)] if before in names else []
    shown = names[-limit:] if before is not None else names[:limit]
    more = len(names) > limit
    return page([model(name, listed[name], loaded.get(name)) for name in shown], more)


def model(name: str, entry: Mapping[str, Any], endpoint: Endpoint | None) -> dict[str, Any]:
    """One of them; `max_input_tokens` is what it can read now, or the most that it could where it is not loaded."""
    created = datetime.fromisoformat(entry["modified_at"]).timestamp()
    reads = endpoint.ctx if endpoint is not None else entry.get("context_length")
    return {"id": name, "type": "model", "display_name": name, "created_at": rfc3339(created), "lifecycle": "active",
            "max_input_tokens": reads or None, "max_tokens": reads or None}
