"""Chat completions that are kept: one object from the bytes that passed, and the messages that asked for it."""

from collections.abc import Iterable
from typing import Any

from blazar.proxy.assemble import Assembler
from blazar.proxy.exchange import Usage
from blazar.proxy.json import BadJson, loads
from blazar.proxy.meter import take_counts
from blazar.proxy.sse import SseReader

HEAD = ("id", "created", "model", "system_fingerprint", "service_tier", "usage", "timings")
"""Fields of chunks that are the whole answer's; the last of each counts."""


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
    whole: dict[str, Any] = {"id": "", "object": "chat.completion"}
    choices: dict[int, _Choice] = {}
    usage = Usage()
    for chunk in chunks:
        if not isinstance(chunk, dict) or chunk.get("error"):
            return None
        take_counts(usage, chunk)
        whole.update({field: chunk[field] for field in HEAD if chunk.get(field) is not None})
        listed = chunk.get("choices")
        for choice in listed if isinstance(listed, list) else []:
            if isinstance(choice, dict):
                index = choice.get("index")
                choices.setdefault(index if isinstance(index, int) else 0, _Choice()).feed(choice)
    whole.setdefault("usage", {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens,
                               "total_tokens": usage.prompt_tokens + usage.completion_tokens})
    return {**whole, "choices": [choices[index].whole(index) for index in sorted(choices)]}


class _Choice:
    """One choice of a stream."""

    def __init__(self) -> None:
        self._assembler = Assembler()
        self._logprobs: list[Any] = []

    def feed(self, choice: dict[str, Any]) -> None:
        self._assembler.feed({"choices": [{**choice, "index": 0}]})
        told = choice.get("logprobs")
        more = told.get("content") if isinstance(told, dict) else None
        self._logprobs += more if isinstance(more, list) else []

    def whole(self, index: int) -> dict[str, Any]:
        answer = self._assembler.finish()
        message: dict[str, Any] = {"role": "assistant", "content": answer.text or None if answer.tool_calls
                                   else answer.text, "refusal": None}
        if answer.thinking:
            message["reasoning_content"] = answer.thinking
        if answer.tool_calls:
            message["tool_calls"] = [{"id": call.id, "type": "function",
                                      "function": {"name": call.name, "arguments": call.arguments}}
                                     for call in answer.tool_calls]
        return {"index": index, "message": message, "finish_reason": answer.finish_reason,
                "logprobs": {"content": self._logprobs} if self._logprobs else None}
