"""A whole answer, and an error, as Anthropic writes them."""

import hashlib
from base64 import b64encode
from collections.abc import Callable
from itertools import groupby
from typing import Any

from blazar.errors import ThreadRefused
from blazar.proxy.assemble import arguments_of
from blazar.proxy.dialects.anthropic_request import hides_thoughts
from blazar.proxy.dialects.fields import public
from blazar.proxy.exchange import Answer, Exchange, Part, ToolCall, Usage

STOP_REASONS = {"length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}

ERROR_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error",
               413: "request_too_large", 429: "rate_limit_error", 503: "overloaded_error", 529: "overloaded_error"}

UNTHREADED = {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}
"""What tells clients that keep conversations on the server to go on by sending all of it each time."""


def message(exchange: Exchange, answer: Answer, new_id: Callable[[str], str]) -> dict[str, Any]:
    """The buffered answer."""
    reason, stop_text = stopped(exchange, answer)
    blocks = _blocks(answer, hides_thoughts(exchange.payload), new_id)
    return {**message_head(exchange, new_id("msg")), "content": blocks, "stop_reason": reason,
            "stop_sequence": stop_text, "usage": usage_of(answer.usage)}


def message_head(exchange: Exchange, message_id: str) -> dict[str, Any]:
    return {"id": message_id, "type": "message", "role": "assistant", "model": exchange.asked}


def stopped(exchange: Exchange, answer: Answer) -> tuple[str, str | None]:
    """Why the answer ended, and the stop sequence that ended it if that was one of the caller's own."""
    if answer.finish_reason == "stop" and answer.stop_text in (exchange.payload.get("stop_sequences") or []):
        return "stop_sequence", answer.stop_text
    return STOP_REASONS.get(answer.finish_reason, "end_turn"), None


def usage_of(usage: Usage) -> dict[str, int]:
    """Tokens; those that the engine still had in its prompt cache stand apart from the rest of the input."""
    cached = min(usage.cached_tokens, usage.prompt_tokens)
    return {"input_tokens": usage.prompt_tokens - cached, "output_tokens": usage.completion_tokens,
            "cache_creation_input_tokens": 0, "cache_read_input_tokens": cached}


class Signature:
    """What stands for the thinking of one block. Clients keep it beside the thinking and send both back; here it is
    never asked for, so a history may come from anywhere."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()

    def feed(self, words: str) -> None:
        self._digest.update(words.encode(errors="replace"))

    def text(self) -> str:
        return b64encode(self._digest.digest()).decode()


def error_envelope(error: Exception) -> dict[str, Any]:
    known = public(error)
    kind = ERROR_TYPES.get(known.status, "invalid_request_error" if known.status < 500 else "api_error")
    told: dict[str, Any] = {"type": kind, "message": known.message}
    if isinstance(known, ThreadRefused):
        told["details"] = UNTHREADED
    return {"type": "error", "error": told}


def tool_use(call: ToolCall, arguments: dict[str, Any], new_id: Callable[[str], str]) -> dict[str, Any]:
    """The block of a call; one that the child left without an id gets a new one."""
    return {"type": "tool_use", "id": call.id or new_id("toolu"), "name": call.name, "input": arguments}


def _blocks(answer: Answer, hidden: bool, new_id: Callable[[str], str]) -> list[dict[str, Any]]:
    """The blocks in the order in which a stream tells them: what was said after the first call follows the last one."""
    kinds = [part.kind for part in answer.parts]
    first_call = kinds.index("call") if "call" in kinds else len(kinds)
    return [*_said(answer.parts[:first_call], hidden),
            *(tool_use(call, _input(call), new_id) for call in answer.tool_calls),
            *_said(answer.parts[first_call:], hidden)]


def _said(parts: list[Part], hidden: bool) -> list[dict[str, Any]]:
    said = groupby((part for part in parts if part.kind != "call"), key=lambda part: part.kind)
    whole = [(kind, "".join("".join(part.words) for part in same)) for kind, same in said]
    return [_thought(words, hidden) if kind == "thinking" else {"type": "text", "text": words}
            for kind, words in whole]


def _thought(words: str, hidden: bool) -> dict[str, Any]:
    signature = Signature()
    signature.feed(words)
    return {"type": "thinking", "thinking": "" if hidden else words, "signature": signature.text()}


def _input(call: ToolCall) -> dict[str, Any]:
    """The arguments as an object; text that is none stays visible inside one, under a name no tool has."""
    arguments = arguments_of(call)
    return {"_unparsed": call.arguments} if arguments is None else arguments
