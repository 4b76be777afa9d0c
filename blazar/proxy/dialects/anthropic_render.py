"""A whole answer, and an error, as Anthropic writes them."""

from collections.abc import Callable
from typing import Any

from blazar.proxy.assemble import arguments_of
from blazar.proxy.dialects.fields import public
from blazar.proxy.exchange import Answer, Exchange, ToolCall, Usage

STOP_REASONS = {"length": "max_tokens", "tool_calls": "tool_use", "content_filter": "refusal"}

ERROR_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error",
               413: "request_too_large", 429: "rate_limit_error", 503: "overloaded_error", 529: "overloaded_error"}


def message(exchange: Exchange, answer: Answer, new_id: Callable[[str], str]) -> dict[str, Any]:
    """The buffered answer."""
    reason, stop_text = stopped(exchange, answer)
    return {**message_head(exchange, new_id("msg")), "content": _blocks(answer, new_id), "stop_reason": reason,
            "stop_sequence": stop_text, "usage": usage_of(answer.usage)}


def message_head(exchange: Exchange, message_id: str) -> dict[str, Any]:
    return {"id": message_id, "type": "message", "role": "assistant", "model": exchange.asked}


def stopped(exchange: Exchange, answer: Answer) -> tuple[str, str | None]:
    """Why the answer ended, and the stop sequence that ended it if that was one of the caller's own."""
    if answer.finish_reason == "stop" and answer.stop_text in (exchange.payload.get("stop_sequences") or []):
        return "stop_sequence", answer.stop_text
    return STOP_REASONS.get(answer.finish_reason, "end_turn"), None


def usage_of(usage: Usage) -> dict[str, int]:
    """Tokens; those that the engine had in its prompt cache are counted among the input."""
    return {"input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens,
            "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0}


def error_envelope(error: Exception) -> dict[str, Any]:
    known = public(error)
    kind = ERROR_TYPES.get(known.status, "invalid_request_error" if known.status < 500 else "api_error")
    return {"type": "error", "error": {"type": kind, "message": known.message}}


def tool_use(call: ToolCall, arguments: dict[str, Any], new_id: Callable[[str], str]) -> dict[str, Any]:
    """The block of a call; one that the child left without an id gets a new one."""
    return {"type": "tool_use", "id": call.id or new_id("toolu"), "name": call.name, "input": arguments}


def _blocks(answer: Answer, new_id: Callable[[str], str]) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if answer.thinking:
        blocks.append({"type": "thinking", "thinking": answer.thinking, "signature": ""})
    if answer.text:
        blocks.append({"type": "text", "text": answer.text})
    return blocks + [tool_use(call, _input(call), new_id) for call in answer.tool_calls]


def _input(call: ToolCall) -> dict[str, Any]:
    """The arguments as an object; text that is none stays visible inside one, under a name no tool has."""
    arguments = arguments_of(call)
    return {"_unparsed": call.arguments} if arguments is None else arguments
