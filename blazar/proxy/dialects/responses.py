"""OpenAI's Responses: /v1/responses and its count of tokens, translated to and from chat completions."""

import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from blazar.proxy.assemble import Assembler
from blazar.proxy.dialects import responses_items, responses_request, responses_tools
from blazar.proxy.dialects import responses_render as rendering
from blazar.proxy.dialects.dialect import Dialect
from blazar.proxy.dialects.fields import boolean, model_name, public, text
from blazar.proxy.dialects.media import written
from blazar.proxy.dialects.openai import envelope
from blazar.proxy.dialects.responses_items import Item
from blazar.proxy.dialects.responses_render import Draft
from blazar.proxy.dialects.responses_stream import ResponsesTranslator
from blazar.proxy.exchange import Answer, Exchange
from blazar.proxy.json import dumps
from blazar.proxy.json_scan import BodyReader


def random_id(prefix: str) -> str:
    """A new id, which nobody can guess: 'resp_...', or that of an item."""
    return f"{prefix}_{secrets.token_hex(16)}"


class ResponsesDialect(Dialect):
    name = "responses"

    def __init__(self, reader: BodyReader | None = None, new_id: Callable[[str], str] = random_id,
                 now: Callable[[], float] = time.time) -> None:
        self._reader = reader or BodyReader()
        self._new_id = new_id
        self._now = now

    def parse(self, operation: str, body: bytes, headers: Mapping[str, str], request_id: str) -> Exchange:
        """As every dialect; what `previous_response_id` stands for has to `follow`."""
        payload = self._reader.whole(body)
        exchange = Exchange(id=request_id, dialect=self, operation=operation, asked=model_name(payload),
                            stream=boolean(payload, "stream", default=False), body=body, payload=payload)
        items = responses_items.given(payload, self._new_id)
        exchange.upstream_body = self._asked(exchange, items, whole=not text(payload, "previous_response_id"))
        tools = {tool.function["name"]: tool for tool in responses_tools.tools(payload)}
        exchange.draft = Draft(rendering.beginning(payload, self._new_id("resp"), self._now()), items, tools)
        return exchange

    def follow(self, exchange: Exchange, earlier: list[Item]) -> None:
        """Put the items of the conversation so far before those of the request."""
        exchange.draft.items = [*earlier, *exchange.draft.items]
        exchange.upstream_body = self._asked(exchange, exchange.draft.items, whole=True)

    def _asked(self, exchange: Exchange, items: list[Item], whole: bool) -> bytes:
        if exchange.operation == "input_tokens":
            exchange.stream = False
            return written(responses_request.prompt(exchange.payload, items, whole))
        return written(responses_request.chat(exchange.payload, items, whole))

    def error(self, error: Exception) -> tuple[int, bytes]:
        return public(error).status, dumps(envelope(error))

    def stream_error(self, error: Exception) -> bytes:
        return b"event: error\ndata: %b\n\n" % dumps(envelope(error))

    def translator(self, exchange: Exchange) -> ResponsesTranslator:
        return ResponsesTranslator(exchange, Assembler(exchange.stops), self._new_id, self._now)

    def render(self, exchange: Exchange, answer: Answer) -> bytes:
        parts = rendering.parts_of(answer)
        items = [rendering.closed(rendering.opened(part, self._new_id, exchange.draft.tools), part, status)
                 for part, status in zip(parts, rendering.statuses(answer), strict=True)]
        return dumps(rendering.ended(exchange, answer, items, self._now()))

    def render_count(self, tokens: int) -> bytes:
        return dumps({"object": "response.input_tokens", "input_tokens": tokens})


def page(objects: list[dict[str, Any]], more: bool) -> bytes:
    """A list of stored objects, or of parts of one, as OpenAI's clients read it page by page."""
    ids = [found.get("id") for found in objects]
    return dumps({"object": "list", "data": objects, "first_id": ids[0] if ids else None,
                  "last_id": ids[-1] if ids else None, "has_more": more})
