"""Anthropic's wire form: /v1/messages and its count_tokens, translated to and from chat completions."""

import secrets
from collections.abc import Callable, Mapping

from blazar.proxy.assemble import Assembler
from blazar.proxy.dialects import anthropic_request
from blazar.proxy.dialects.anthropic_render import error_envelope, message
from blazar.proxy.dialects.anthropic_stream import PING, AnthropicTranslator, error_event
from blazar.proxy.dialects.dialect import Dialect
from blazar.proxy.dialects.fields import boolean, model_name, public
from blazar.proxy.dialects.media import written
from blazar.proxy.exchange import Answer, Exchange
from blazar.proxy.json import dumps
from blazar.proxy.json_scan import BodyReader


def random_id(prefix: str) -> str:
    """A new id: 'msg_...' for a message, 'toolu_...' for a call that the child left unnamed."""
    return f"{prefix}_{secrets.token_hex(12)}"


class AnthropicDialect(Dialect):
    name = "anthropic"
    busy = 529

    def __init__(self, reader: BodyReader | None = None, new_id: Callable[[str], str] = random_id) -> None:
        self._reader = reader or BodyReader()
        self._new_id = new_id

    def parse(self, operation: str, body: bytes, headers: Mapping[str, str], request_id: str) -> Exchange:
        payload = self._reader.whole(body)
        exchange = Exchange(id=request_id, dialect=self, operation=operation, asked=model_name(payload),
                            stream=boolean(payload, "stream", default=False), body=body, payload=payload)
        if operation == "count_tokens":
            exchange.stream = False
            exchange.upstream_body = written(anthropic_request.prompt(payload))
        else:
            asked = anthropic_request.chat(payload)
            exchange.stops = tuple(asked.get("stop", ()))
            exchange.upstream_body = written(asked)
        return exchange

    def error(self, error: Exception) -> tuple[int, bytes]:
        return public(error).status, dumps(error_envelope(error))

    def stream_error(self, error: Exception) -> bytes:
        return error_event(error)

    def heartbeat(self, exchange: Exchange) -> bytes:
        return PING

    def translator(self, exchange: Exchange) -> AnthropicTranslator:
        return AnthropicTranslator(exchange, Assembler(exchange.stops), self._new_id)

    def render(self, exchange: Exchange, answer: Answer) -> bytes:
        return dumps(message(exchange, answer, self._new_id))

    def render_count(self, tokens: int) -> bytes:
        return dumps({"input_tokens": tokens})
