"""Chat completions that are kept: one object from the bytes that passed, and the messages that asked for it."""

from collections.abc import Iterable
from typing import Any

from blazar.proxy.dialects.openai_whole import Whole
from blazar.proxy.exchange import Usage
from blazar.proxy.json import BadJson, loads
from blazar.proxy.meter import take_counts
from blazar.proxy.sse import SseReader


def completion(body: bytes, streamed: bool) -> dict[str, Any] | None:
    """The chat completion of a whole answer's body; None for what is none, or has no id to be found by."""
    try:
        found = _joined([loads(data) for data in _events(body)]) if streamed else loads(body)
    except BadJson:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("choices"), list):
        return None
    return found if isinstance(found.get("id"), str) and found["id"] else None


def messages(id: str, turns: Iterable[Any]) -> list[dict[str, Any]]:
    """The messages of the request that the completion `id` answers, as its list shows them."""
    listed = []
    for number, turn in enumerate(turns):
        turn = turn if isinstance(turn, dict) else {"role": "user", "content": turn}
        content = turn.get("content")
        parts = content if isinstance(content, list) else None
        words = [part["text"] for part in parts or [] if isinstance(part, dict) and isinstance(part.get("text"), str)]
        listed.append({**turn, "id": f"{id}-{number}", "content": content if parts is None else "\n".join(words),
                       "content_parts": parts})
    return listed


def _events(body: bytes) -> list[str]:
    reader = SseReader()
    return [data for data in [*reader.feed(body), *reader.finish()] if data.strip() != "[DONE]"]


def _joined(chunks: list[Any]) -> dict[str, Any] | None:
    """One object of a stream's chunks; None when an error is among them."""
    whole, usage = Whole(), Usage()
    for chunk in chunks:
        if not isinstance(chunk, dict) or chunk.get("error"):
            return None
        whole.feed(chunk)
        take_counts(usage, chunk)
    value = whole.value()
    for choice in value["choices"]:  # what OpenAI's objects have besides
        message = choice.setdefault("message", {})
        message.setdefault("refusal", None)
        choice.setdefault("logprobs", None)
        if message.get("tool_calls"):
            message["content"] = message.get("content") or None
            message["tool_calls"] = [{"type": "function", **call} for call in message["tool_calls"]]
    counts = {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens,
              "total_tokens": usage.prompt_tokens + usage.completion_tokens}
    return {"usage": counts, **value}
