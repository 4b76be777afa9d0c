"""Ollama's /api/embed, and /api/embeddings, the older form for one text."""

from typing import Any

from blazar.proxy.dialects.embed_inputs import dimensions, texts_or_tokens
from blazar.proxy.dialects.fields import boolean, mapping, text
from blazar.proxy.exchange import Embedded, Exchange, Inputs

OPERATIONS = ("embed", "embeddings")


def inputs(operation: str, payload: dict[str, Any]) -> Inputs | None:
    """What the request wants embedded; unless it says otherwise, what is too long is cut off. None when there is
    nothing: then the model is only loaded. Raises RequestRefused."""
    mapping(payload, "options")  # they shape a load, and loads are shaped by settings here
    if operation == "embeddings":
        prompt = text(payload, "prompt")
        return Inputs([prompt], truncate=True) if prompt else None
    given = payload.get("input")
    if given is None or given == "" or given == []:
        return None
    return Inputs(texts_or_tokens(given, "input"), boolean(payload, "truncate", default=True),
                  dimensions=dimensions(payload))


def nothing(exchange: Exchange) -> dict[str, Any]:
    """The answer to a request that has nothing to embed."""
    return {"embedding": []} if exchange.operation == "embeddings" else {"model": exchange.asked, "embeddings": []}


def answer(exchange: Exchange, embedded: Embedded, elapsed_ns: int) -> dict[str, Any]:
    if exchange.operation == "embeddings":
        return {"embedding": embedded.vectors[0]}
    return {"model": exchange.asked, "embeddings": embedded.vectors, "total_duration": elapsed_ns,
            "load_duration": exchange.load_ns, "prompt_eval_count": embedded.prompt_tokens}
