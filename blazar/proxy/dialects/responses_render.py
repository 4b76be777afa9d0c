"""The object of a response: as it begins, its items, and as it ends."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from blazar.errors import ResponseCancelled
from blazar.proxy.dialects import responses_tools
from blazar.proxy.dialects.fields import public
from blazar.proxy.dialects.responses_items import PREFIXES, Item
from blazar.proxy.dialects.responses_tools import CALLS, CUSTOM, FUNCTION, Tool
from blazar.proxy.exchange import Answer, Exchange, Part, Usage

REASONS = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""Why an answer is incomplete, by what the child says of its end."""
KINDS = {"thinking": "reasoning", "text": "message"}
"""The type of an item, by the kind of the part that it holds; that of a call depends on its tool."""

NewId = Callable[[str], str]


@dataclass
class Draft:
    """What is known when the request is read: the response as it begins, the items of its own `input`, and its tools
    by the names that the model knows."""

    response: dict[str, Any]
    items: list[Item]
    tools: Mapping[str, Tool] = field(default_factory=dict)


def beginning(payload: dict[str, Any], response_id: str, now: float) -> dict[str, Any]:
    """The response before its first word."""
    reasoning, form = payload.get("reasoning") or {}, (payload.get("text") or {}).get("format")
    return {
        "id": response_id, "object": "response", "created_at": int(now), "status": "in_progress", "completed_at": None,
        "background": False, "error": None, "incomplete_details": None,
        "instructions": payload.get("instructions"), "max_output_tokens": payload.get("max_output_tokens"),
        "max_tool_calls": None, "metadata": payload.get("metadata") or {}, "model": payload["model"], "output": [],
        "parallel_tool_calls": payload.get("parallel_tool_calls") is not False,
        "previous_response_id": payload.get("previous_response_id"),
        "reasoning": {"effort": reasoning.get("effort"), "summary": None}, "service_tier": "default",
        "store": payload.get("store") is not False, "temperature": payload.get("temperature"),
        "text": {"format": form or {"type": "text"}}, "tool_choice": payload.get("tool_choice") or "auto",
        "tools": responses_tools.shown(payload), "top_p": payload.get("top_p"), "truncation": "disabled", "usage": None,
        "user": payload.get("user"),
    }


def parts_of(answer: Answer) -> list[Part]:
    """The parts of a whole answer; one that is empty has an empty text."""
    if not answer.parts:
        answer.parts.append(Part("text"))
    return answer.parts


def opened(part: Part, new_id: NewId, tools: Mapping[str, Tool]) -> Item:
    """The item of a part before its first word."""
    tool = tool_of(part, tools)
    kind = CALLS[tool.kind] if tool else KINDS[part.kind]
    item: Item = {"id": new_id(PREFIXES[kind]), "type": kind, "status": "in_progress"}
    if part.call is not None and tool is not None:
        words = "input" if tool.kind == CUSTOM else "arguments"
        return {**item, "call_id": part.call.id or new_id("call"), **tool.call, words: ""}
    return {**item, **({"summary": []} if kind == "reasoning" else {"role": "assistant"}), "content": []}


def tool_of(part: Part, tools: Mapping[str, Tool]) -> Tool | None:
    """The tool that a part calls; a name that the model made up is a function's."""
    if part.call is None:
        return None
    return tools.get(part.call.name) or Tool(FUNCTION, part.call.name, "", {})


def closed(item: Item, part: Part, status: str) -> Item:
    """That item once its part is whole."""
    if part.call is not None:
        words = arguments(part)
        return {**item, "status": status, **({"input": responses_tools.custom_input(words)} if "input" in item
                                             else {"arguments": words})}
    return {**item, "status": status, "content": [content(part.kind, "".join(part.words))]}


def content(kind: str, words: str) -> dict[str, Any]:
    """The one part of an item's content."""
    if kind == "thinking":
        return {"type": "reasoning_text", "text": words}
    return {"type": "output_text", "text": words, "annotations": [], "logprobs": []}


def arguments(part: Part) -> str:
    """The JSON text of a call's arguments; a call without any has an empty object."""
    return (part.call.arguments if part.call is not None else "") or "{}"


def statuses(answer: Answer) -> list[str]:
    """The status of each of its items: only the last one may be incomplete."""
    last = "incomplete" if answer.finish_reason in REASONS else "completed"
    return ["completed"] * (len(answer.parts) - 1) + [last]


def ended(exchange: Exchange, answer: Answer, items: list[Item], now: float) -> dict[str, Any]:
    """The response at its end; it is kept now, if it is to be."""
    reason = REASONS.get(answer.finish_reason)
    return _kept(exchange, {
        **exchange.draft.response, "status": "incomplete" if reason else "completed", "output": items,
        "completed_at": None if reason else int(now), "incomplete_details": {"reason": reason} if reason else None,
        "usage": usage_of(answer.usage)})


def failed(exchange: Exchange, answer: Answer, items: list[Item], error: Exception) -> dict[str, Any]:
    """The response that `error` has ended."""
    cancelled = isinstance(error, ResponseCancelled)
    return _kept(exchange, {
        **exchange.draft.response, "status": "cancelled" if cancelled else "failed", "output": items,
        "error": None if cancelled else {"code": "server_error", "message": public(error).message},
        "usage": usage_of(answer.usage)})


def usage_of(usage: Usage) -> dict[str, Any]:
    """Tokens; the engine does not tell those of thinking apart."""
    return {"input_tokens": usage.prompt_tokens,
            "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
            "output_tokens": usage.completion_tokens, "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage.prompt_tokens + usage.completion_tokens}


def _kept(exchange: Exchange, response: dict[str, Any]) -> dict[str, Any]:
    """The response, which says of itself whether it is kept."""
    kept = exchange.keep is not None and exchange.keep({**response, "store": True})
    return {**response, "store": kept}
