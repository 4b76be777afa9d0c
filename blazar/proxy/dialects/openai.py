"""OpenAI's wire form: request and answer pass through as the bytes they are, but for a few words in a request that no
engine knows, and for embeddings, whose order and number are checked; errors and lists are written here."""

from collections.abc import Mapping
from datetime import datetime
from operator import itemgetter
from typing import Any, Final

from blazar.errors import DailyQuotaExceeded, PromptTooLong, QuotaExceeded
from blazar.proxy.dialects import openai_embeddings, rerank
from blazar.proxy.dialects.dialect import Dialect
from blazar.proxy.dialects.fields import boolean, model_name, public, refuse
from blazar.proxy.dialects.openai_nulls import without_nulls
from blazar.proxy.exchange import Embedded, Exchange
from blazar.proxy.json import dumps
from blazar.proxy.json_scan import BodyReader
from blazar.transport import Endpoint

PATHS: Final = {"chat": "/v1/chat/completions", "completions": "/v1/completions", "infill": "/infill"}

READ: Final = frozenset({"model", "stream", "mcp", "max_tokens", "max_completion_tokens", "n", "store", "metadata",
                  "response_format", "json_schema", "grammar", "tool_choice", "reasoning_effort"})
"""The fields that the gateway itself reads: all that is known of a large body."""

FEW: Final = 8
"""Turns that are looked at one by one."""
TURN, TEXT = frozenset({frozenset({"role", "content"})}), frozenset({str})
"""What the fields of a plain turn are, and its content."""
_content = itemgetter("content")

ERROR_TYPES: Final = {401: "authentication_error", 403: "permission_error", 404: "not_found_error",
               413: "request_too_large", 429: "rate_limit_error"}
OUT_OF_QUOTA: Final = "insufficient_quota"
"""OpenAI's word, as type and as code, for a quota that no short wait brings back."""
CODES: Final = {QuotaExceeded.slug: "rate_limit_exceeded", DailyQuotaExceeded.slug: OUT_OF_QUOTA,
         PromptTooLong.slug: "context_length_exceeded"}
"""Codes that clients look for, by our slug; any other error has its slug as its code."""


def _has_content(payload: dict[str, Any]) -> None:
    if not isinstance(payload.get("content"), str):
        refuse("content", "the text whose tokens are wanted", payload.get("content"))


def _has_tokens(payload: dict[str, Any]) -> None:
    tokens = payload.get("tokens")
    if not isinstance(tokens, list) or not all(type(token) is int and token >= 0 for token in tokens):
        refuse("tokens", "a list of whole numbers from 0", tokens)


WHOLE: Final = {"tokenize": _has_content, "detokenize": _has_tokens}
"""What is wrong in the body of such an operation is refused."""
NEEDS: Final = {"embeddings": "embedding", "rerank": "rerank", **dict.fromkeys(WHOLE, "")}
"""Operations whose body is read whole, with the capability that a model must have for them; '' where any will do."""


class OpenAIDialect(Dialect):
    name = "openai"
    relays = True

    def __init__(self, reader: BodyReader | None = None, via_stream: bool = False) -> None:
        """`via_stream`: the child is asked for a stream even where the client wants none."""
        self._reader = reader or BodyReader()
        self._via_stream = via_stream

    def parse(self, operation: str, body: bytes, headers: Mapping[str, str], request_id: str) -> Exchange:
        if operation not in PATHS:
            return self._parse_whole(operation, body, request_id)
        payload = self._reader.fields(body, READ)
        stream = "stream" in payload and boolean(payload, "stream", default=False)
        plain, upstream = False, body
        if operation == "chat":
            plain = _is_plain(payload)
            upstream = body if plain else without_nulls(body, self._reader.whole)
        if payload.get("reasoning_effort") == "none":
            upstream = _without_thinking(self._reader.whole(upstream))
        exchange = Exchange(request_id, self, operation, model_name(payload), stream, body, payload, PATHS[operation],
                            upstream)
        exchange.plain = plain
        if self._via_stream and not stream and _has_one_choice(operation, payload):
            exchange.gathers = True
            exchange.upstream_body = _asking_for_a_stream(upstream)
        return exchange

    def _parse_whole(self, operation: str, body: bytes, request_id: str) -> Exchange:
        """What makes no model write."""
        payload = self._reader.whole(body)
        if operation in WHOLE:
            WHOLE[operation](payload)
        exchange = Exchange(request_id, self, operation, model_name(payload), False, body, payload)
        exchange.needs = NEEDS[operation]
        if operation == "embeddings":
            exchange.inputs = openai_embeddings.inputs(payload)
        elif operation == "rerank":
            exchange.draft = rerank.ranking(payload)
        return exchange

    def error(self, error: Exception) -> tuple[int, bytes]:
        return public(error).status, dumps(envelope(error))

    def stream_error(self, error: Exception) -> bytes:
        return b"data: %b\n\n" % dumps(envelope(error))

    def translator(self, exchange: Exchange) -> "Passing":
        return Passing(self)

    def render_embedded(self, exchange: Exchange, embedded: Embedded) -> bytes:
        return dumps(openai_embeddings.listed(exchange, embedded))


class Passing:
    """Writes a child's events again, for answers whose form is looked after; others pass as bytes."""

    stopped = False

    def __init__(self, dialect: OpenAIDialect) -> None:
        self._dialect = dialect

    def feed(self, event: dict[str, Any]) -> bytes:
        return b"data: %b\n\n" % dumps(event)

    def finish(self) -> bytes:
        return b"data: [DONE]\n\n"

    def fail(self, error: Exception) -> bytes:
        return self._dialect.stream_error(error)


def _is_plain(payload: dict[str, Any]) -> bool:
    """Whether it is sure without a search through the bytes that a chat is made of roles and texts alone. A large body,
    and what has tools, have to be searched."""
    turns = payload.get("messages")
    if not isinstance(turns, list) or "tools" in payload or "prompt" in payload:
        return False
    if len(turns) <= FEW:
        for turn in turns:
            if not (isinstance(turn, dict) and len(turn) == 2 and "role" in turn
                    and isinstance(turn.get("content"), str)):
                return False
        return True
    try:  # the same of many at once
        return TURN.issuperset(map(frozenset, turns)) and TEXT.issuperset(map(type, map(_content, turns)))
    except (KeyError, TypeError):  # a turn that is no object
        return False


def _has_one_choice(operation: str, payload: Mapping[str, Any]) -> bool:
    """Of several, a stream does not tell whose usage it counts. What the prompts of a large body are is not known."""
    prompt = payload.get("prompt")
    several = operation == "completions" and (prompt is None or (isinstance(prompt, list) and len(prompt) > 1
                                                                 and not isinstance(prompt[0], int)))
    return payload.get("n") in (None, 1) and not several


def _without_thinking(asked: dict[str, Any]) -> bytes:
    """The same request in words that engines know; the effort `none` is none of theirs."""
    own = asked.get("chat_template_kwargs")
    values = {"enable_thinking": False, **own} if isinstance(own, dict) else {"enable_thinking": False}
    return dumps({**asked, "chat_template_kwargs": values})


def _asking_for_a_stream(body: bytes) -> bytes:
    """The same object; what a reader finds last counts."""
    return body.rstrip().removesuffix(b"}") + b',"stream":true,"stream_options":{"include_usage":true}}'


def models(listed: Mapping[str, Mapping[str, Any]], loaded: Mapping[str, Endpoint]) -> dict[str, Any]:
    """The answer of GET /v1/models; `listed` are the snapshot's models by the name to show, `loaded` an endpoint
    of each that is loaded."""
    return {"object": "list", "data": [model(name, entry, loaded.get(name)) for name, entry in listed.items()]}


def model(name: str, entry: Mapping[str, Any], endpoint: Endpoint | None) -> dict[str, Any]:
    """One entry of that list, and the answer of GET /v1/models/NAME.

    `context_length` is in tokens what one request can have now; that of a model which is not loaded is known only once
    it is.
    """
    created = int(datetime.fromisoformat(entry["modified_at"]).timestamp())
    return {"id": name, "object": "model", "created": created, "owned_by": "blazar",
            "status": "not loaded" if endpoint is None else "loaded", "lane": endpoint and endpoint.lane,
            "context_length": endpoint and endpoint.ctx, "max_context_length": entry.get("context_length") or None,
            "capabilities": list(entry["capabilities"]), **({"parent": entry["parent"]} if "parent" in entry else {})}


def envelope(error: Exception) -> dict[str, Any]:
    """OpenAI's shape of an error."""
    known = public(error)
    kind = ERROR_TYPES.get(known.status, "invalid_request_error" if known.status < 500 else "server_error")
    code = CODES.get(known.slug, known.slug)
    kind = code if code == OUT_OF_QUOTA else kind
    return {"error": {"message": known.message, "type": kind, "param": None, "code": code}}
