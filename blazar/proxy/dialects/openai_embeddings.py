"""OpenAI's /v1/embeddings: its request, and its answer with vectors as numbers or as base64."""

import base64
import struct
from typing import Any

from blazar.proxy.dialects.embed_inputs import dimensions, texts_or_tokens
from blazar.proxy.dialects.fields import boolean, refuse
from blazar.proxy.exchange import Embedded, Exchange, Inputs

ENCODINGS = (None, "float", "base64")


def inputs(payload: dict[str, Any]) -> Inputs:
    """What the request wants embedded. Raises RequestRefused."""
    if payload.get("encoding_format") not in ENCODINGS:
        refuse("encoding_format", "\"float\" or \"base64\"", payload["encoding_format"])
    return Inputs(texts_or_tokens(payload.get("input"), "input"), late=boolean(payload, "late_chunking", default=False),
                  dimensions=dimensions(payload))


def listed(exchange: Exchange, embedded: Embedded) -> dict[str, Any]:
    """The answer, in the order of the inputs."""
    as_base64 = exchange.payload.get("encoding_format") == "base64"
    rows = [{"object": "embedding", "index": index, "embedding": packed(vector) if as_base64 else vector}
            for index, vector in enumerate(embedded.vectors)]
    return {"object": "list", "data": rows, "model": exchange.asked,
            "usage": {"prompt_tokens": embedded.prompt_tokens, "total_tokens": embedded.prompt_tokens}}


def packed(vector: list[float]) -> str:
    """A vector as base64 of its numbers, four bytes each, the least one first."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
