"""`Question`: what a chat asks, taken apart for the semantic cache: its last text, and the shape of all the rest."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from blazar.proxy.exchange import Exchange

CHAT = "/v1/chat/completions"
LONGEST_TEXT = 8192
"""Characters of the longest last text. What an embedding model cannot read whole must not be compared."""
LONGEST_BODY = 1 << 20
"""Bytes of the longest request that is looked at."""
OF_THE_WIRE = ("model", "stream", "stream_options")
"""Fields of the child's request that do not shape its answer, or stand for the model."""
NOT_KEPT = ("tools", "functions", "logprobs", "top_logprobs", "n_probs", "store", "audio", "modalities")
"""Fields whose answers are more than text, or belong to one request."""


@dataclass(frozen=True)
class Question:
    text: str
    shape: bytes
    """A digest; equal for requests of one API key that differ in nothing but the last text."""
    wants_usage: bool
    """A stream is to tell its usage."""


def may_be_kept(exchange: Exchange) -> bool:
    """Whether the exchange is a chat of a kind whose answers are kept. Ollama's generate gives its client tokens that
    only an engine knows."""
    return (exchange.upstream_path == CHAT and exchange.operation != "generate"
            and (exchange.reshaping is None or not exchange.reshaping.calls)
            and 0 < len(exchange.upstream_body) <= LONGEST_BODY)


def question_of(exchange: Exchange, asked: dict[str, Any], *more: str) -> Question | None:
    """The question in `asked`, the exchange's request to its child; None for one whose answer is not to be kept. `more`
    belongs to the shape."""
    turns = asked.get("messages")
    if not isinstance(turns, list) or not turns:
        return None
    last = turns[-1]
    if not isinstance(last, dict) or last.get("role") != "user" or asked.get("n") not in (None, 1):
        return None
    if any(asked.get(name) for name in NOT_KEPT):
        return None
    text, rest = _taken_apart(last.get("content"))
    if not text.strip() or len(text) > LONGEST_TEXT:
        return None
    fields = {name: value for name, value in asked.items() if name not in OF_THE_WIRE}
    fields["messages"] = [*turns[:-1], {**last, "content": rest}]
    key = exchange.api_key
    knobs = sorted((name, repr(value)) for name, value in exchange.knobs.items() if name != "x-blazar-cache")
    whole = [None if key is None else key.digest.hex(), exchange.model, more, knobs, fields]
    options = asked.get("stream_options")
    return Question(text, hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).digest(),
                    isinstance(options, dict) and bool(options.get("include_usage")))


def _taken_apart(content: Any) -> tuple[str, Any]:
    """The text of a turn and its content without it; '' for a turn that has several texts, or none."""
    if isinstance(content, str):
        return content, None
    parts = content if isinstance(content, list) else []
    places = [place for place, part in enumerate(parts) if isinstance(part, dict) and part.get("type") == "text"]
    if len(places) != 1 or not isinstance(parts[places[0]].get("text"), str):
        return "", None
    return parts[places[0]]["text"], [{**part, "text": None} if place == places[0] else part
                                      for place, part in enumerate(parts)]
