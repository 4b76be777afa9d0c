"""OpenAI's wire form: request and answer pass through as the bytes they are, but for embeddings, whose order and number
are checked; errors and lists are written here."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from blazar.proxy.dialects import openai_embeddings
from blazar.proxy.dialects.dialect import Dialect
from blazar.proxy.dialects.fields import boolean, model_name, public
from blazar.proxy.exchange import Embedded, Exchange
from blazar.proxy.json import dumps, load_object
from blazar.proxy.json_scan import scan_object

PATHS = {"chat": "/v1/chat/completions", "completions": "/v1/completions"}

READ = frozenset({"model", "stream", "mcp"})
"""The fields that the gateway itself reads, and so all that is known of a large body."""

ERROR_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error",
               413: "request_too_large", 429: "rate_limit_error"}


class OpenAIDialect(Dialect):
    """Bodies over `scan_over` bytes are scanned for the fields of READ, with a `pause` every few milliseconds."""

    name = "openai"
    relays = True

    def __init__(self, scan_over: int | None = None, pause: Callable[[], None] = lambda: None) -> None:
        self._scan_over = scan_over
        self._pause = pause

    def parse(self, operation: str, body: bytes, headers: Mapping[str, str], request_id: str) -> Exchange:
        if operation == "embeddings":
            payload = load_object(body)
            return Exchange(id=request_id, dialect=self, operation=operation, asked=model_name(payload), stream=False,
                            body=body, payload=payload, needs="embedding", inputs=openai_embeddings.inputs(payload))
        large = self._scan_over is not None and len(body) > self._scan_over
        payload = scan_object(body, READ, self._pause) if large else load_object(body)
        return Exchange(id=request_id, dialect=self, operation=operation, asked=model_name(payload),
                        stream=boolean(payload, "stream", default=False), body=body, payload=payload,
                        upstream_path=PATHS[operation], upstream_body=body)

    def error(self, error: Exception) -> tuple[int, bytes]:
        return public(error).status, dumps(_envelope(error))

    def stream_error(self, error: Exception) -> bytes:
        return b"data: %b\n\n" % dumps(_envelope(error))

    def render_embedded(self, exchange: Exchange, embedded: Embedded) -> bytes:
        return dumps(openai_embeddings.listed(exchange, embedded))


def models(listed: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """The answer of GET /v1/models; `listed` are the snapshot's models by the name to show."""
    return {"object": "list", "data": [model(name, entry) for name, entry in listed.items()]}


def model(name: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """One entry of that list, and the answer of GET /v1/models/NAME."""
    created = int(datetime.fromisoformat(entry["modified_at"]).timestamp())
    return {"id": name, "object": "model", "created": created, "owned_by": "blazar"}


def _envelope(error: Exception) -> dict[str, Any]:
    known = public(error)
    kind = ERROR_TYPES.get(known.status, "invalid_request_error" if known.status < 500 else "server_error")
    return {"error": {"message": known.message, "type": kind, "param": None, "code": known.slug}}
