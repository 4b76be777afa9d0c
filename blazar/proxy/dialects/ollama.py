"""Ollama's wire form: /api/chat and /api/generate, translated to and from chat completions, and its embeddings."""

import secrets
import time
from collections.abc import Callable, Mapping
from typing import Any

from blazar.proxy.assemble import Assembler
from blazar.proxy.dialects import ollama_embed, ollama_generate, ollama_request
from blazar.proxy.dialects.dialect import Dialect
from blazar.proxy.dialects.fields import boolean, model_name, objects, public, strings, text
from blazar.proxy.dialects.media import written
from blazar.proxy.dialects.ollama_options import keep_alive, num_ctx
from blazar.proxy.dialects.ollama_render import OllamaTranslator, Writer, error_line
from blazar.proxy.exchange import Answer, Embedded, Exchange
from blazar.proxy.json import dumps
from blazar.proxy.json_scan import BodyReader


def random_id() -> str:
    """A new id for a tool call that the child left without one."""
    return f"call_{secrets.token_hex(12)}"


class OllamaDialect(Dialect):
    """Operations `chat` and `generate`, `embed` and the older `embeddings`.

    A request without messages, prompt or input only loads the model, or unloads it when its keep_alive is 0: it has
    `knobs["load_only"]`, nothing for the child, and `render` writes its answer.
    """

    name = "ollama"
    stream_type = "application/x-ndjson"

    def __init__(self, reader: BodyReader | None = None, now: Callable[[], float] = time.time,
                 monotonic: Callable[[], float] = time.monotonic, new_id: Callable[[], str] = random_id) -> None:
        self._reader = reader or BodyReader()
        self._writer = Writer(now, monotonic, new_id)

    def parse(self, operation: str, body: bytes, headers: Mapping[str, str], request_id: str) -> Exchange:
        payload = self._reader.whole(body)
        exchange = Exchange(id=request_id, dialect=self, operation=operation, asked=model_name(payload),
                            stream=boolean(payload, "stream", default=True), body=body, payload=payload)
        exchange.keep_alive, exchange.num_ctx = keep_alive(payload.get("keep_alive")), num_ctx(payload)
        if operation in ollama_embed.OPERATIONS:
            exchange.stream, exchange.needs, exchange.num_ctx = False, "embedding", 0
            exchange.inputs = ollama_embed.inputs(operation, payload)
            if exchange.inputs is None:
                exchange.knobs["load_only"] = True
        elif _is_load_only(operation, payload):
            exchange.stream = False
            exchange.knobs["load_only"] = True
        else:
            exchange.upstream_path, asked = _asked(operation, payload)
            if operation == "generate":
                exchange.context = ollama_generate.context_of(payload)
            exchange.thinks = payload.get("think") not in (None, False)
            exchange.stops = tuple(asked.get("stop", ()))
            exchange.upstream_body = written(asked)
        return exchange

    def error(self, error: Exception) -> tuple[int, bytes]:
        known = public(error)
        return known.status, dumps({"error": known.message})

    def stream_error(self, error: Exception) -> bytes:
        return error_line(error)

    def heartbeat(self, exchange: Exchange) -> bytes:
        return self._writer.line(exchange, "", "")  # its clients read every line, so it is one without words

    def translator(self, exchange: Exchange) -> OllamaTranslator:
        return OllamaTranslator(exchange, self._writer, Assembler(exchange.stops))

    def render(self, exchange: Exchange, answer: Answer) -> bytes:
        if exchange.operation in ollama_embed.OPERATIONS:
            return dumps(ollama_embed.nothing(exchange))
        if exchange.knobs.get("load_only"):
            return dumps(self._writer.loaded(exchange))
        return dumps(self._writer.whole(exchange, answer))

    def render_embedded(self, exchange: Exchange, embedded: Embedded) -> bytes:
        return dumps(ollama_embed.answer(exchange, embedded, self._writer.elapsed_ns(exchange)))


def _asked(operation: str, payload: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Path and body of the child's request."""
    if operation == "chat":
        return ollama_generate.CHAT, ollama_request.chat(payload)
    return ollama_generate.asked_for(payload)


def _is_load_only(operation: str, payload: dict[str, Any]) -> bool:
    if operation == "chat":
        return not objects(payload, "messages")
    return not any((text(payload, "prompt"), text(payload, "suffix"), strings(payload, "images")))
