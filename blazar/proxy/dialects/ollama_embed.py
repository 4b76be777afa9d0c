"""Ollama's /api/embed, and /api/embeddings, the older form for one text."""

from typing import Any

from blazar.proxy.dialects.embed_inputs import dimensions, texts_or_tokens
from blazar.proxy.dialects.fields import boolean, mapping, refuse
from blazar.proxy.exchange import Embedded, Exchange, Inputs

OPERATIONS = ("embed", "embeddings")


def inputs(operation: str, payload: dict[str, Any]) -> Inputs:
    """What the request wants embedded; unless it says otherwise, what is too long is cut off. Raises RequestRefused."""
    mapping(payload, "options")  # they shape a load, and loads are shaped by settings here
    if operation == "embed":
        return Inputs(texts_or_tokens(payload.get("input"), "input"), boolean(payload, "truncate", default=True),
                      dimensions=dimensions(payload))
    if not isinstance(payload.get("prompt"), str):
        refuse("prompt", "the text to embed, a string", payload.get("prompt"))
    return Inputs(texts_or_tokens(payload["prompt"], "prompt"), truncate=True)


def answer(exchange: Exchange, embedded: Embedded, elapsed_ns: int) -> dict[str, Any]:
    if exchange.operation == "embeddings":
        return {"embedding": embedded.vectors[0]}
    return {"model": exchange.asked, "embeddings": embedded.vectors, "total_duration": elapsed_ns,
            "load_duration": exchange.load_ns, "prompt_eval_count": embedded.prompt_tokens}
