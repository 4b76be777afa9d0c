"""A Responses request as the chat completion that asks a child the same."""

from collections.abc import Sequence
from typing import Any

from blazar.errors import KnobRefused, RequestRefused
from blazar.proxy.dialects import responses_items
from blazar.proxy.dialects.fields import boolean, integer, mapping, metadata, number, objects, refuse, strings, text
from blazar.proxy.dialects.responses_items import Item
from blazar.proxy.dialects.shape import thinking

EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
LOGPROBS = "message.output_text.logprobs"
NOT_HERE = {
    # field: why it is refused, what to do instead; null and false ask for nothing
    "background": ("an answer is written only while its client waits", "leave it out, and stream a long answer"),
    "conversation": ("conversations are not kept under a name of their own", "send `previous_response_id`"),
    "prompt": ("no prompt templates are kept here", "send their text as `instructions`"),
    "context_management": ("a conversation is never shortened here", "leave it out"),
    "moderation": ("no moderation runs here", "leave it out"),
    "top_logprobs": ("this API does not pass them on", "use /v1/chat/completions, which does"),
}


def chat(payload: dict[str, Any], items: Sequence[Item], whole: bool) -> dict[str, Any]:
    """The child's request for the conversation `items`; see `responses_items.turns` for `whole`."""
    _check(payload)
    asked = {"stream": True, "stream_options": {"include_usage": True}, **prompt(payload, items, whole)}
    limit = integer(payload, "max_output_tokens")
    if limit is not None:
        asked["max_tokens"] = limit if limit >= 1 else refuse("max_output_tokens", "at least 1", limit)
    for field in ("temperature", "top_p"):
        value = number(payload, field)
        if value is not None:
            asked[field] = value
    return asked


def prompt(payload: dict[str, Any], items: Sequence[Item], whole: bool) -> dict[str, Any]:
    """The part of the child's request that makes the prompt: all that counts as input."""
    instructions = text(payload, "instructions")
    turns = responses_items.turns(items, whole)
    if whole and not turns:
        raise RequestRefused("`input` is missing: send a text, or a list of items like "
                             "{\"role\": \"user\", \"content\": \"...\"}")
    if instructions:
        turns.insert(0, {"role": "system", "content": instructions})
    return {"model": payload["model"], "messages": turns, **_tools(payload), **_reasoning(payload),
            **_text_format(payload)}


def _check(payload: dict[str, Any]) -> None:
    for field, (reason, remedy) in NOT_HERE.items():
        if payload.get(field):
            raise KnobRefused(knob=f"`{field}`", reason=reason, remedy=remedy)
    if LOGPROBS in strings(payload, "include"):
        reason, remedy = NOT_HERE["top_logprobs"]
        raise KnobRefused(knob=f"`include` \"{LOGPROBS}\"", reason=reason, remedy=remedy)
    if payload.get("truncation") not in (None, "auto", "disabled"):
        refuse("truncation", "auto or disabled", payload["truncation"])
    text(payload, "user")
    boolean(payload, "store", default=True)
    metadata(payload)


def _tools(payload: dict[str, Any]) -> dict[str, Any]:
    tools = [_tool(tool, f"tools[{position}].") for position, tool in enumerate(objects(payload, "tools"))]
    choice = payload.get("tool_choice")
    names = [tool["function"]["name"] for tool in tools]
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        allowed = [text(tool, "name", "tool_choice.tools[].") for tool in objects(choice, "tools", "tool_choice.")]
        tools = [tool for tool in tools if tool["function"]["name"] in allowed]
        choice = text(choice, "mode", "tool_choice.") or "auto"
    asked: dict[str, Any] = {"tools": tools} if tools else {}
    if choice is not None:
        asked |= _tool_choice(choice, names)
    parallel = boolean(payload, "parallel_tool_calls", default=True)
    if tools and payload.get("parallel_tool_calls") is not None:
        asked["parallel_tool_calls"] = parallel
    return asked


def _tool(tool: dict[str, Any], where: str) -> dict[str, Any]:
    kind = text(tool, "type", where)
    if kind != "function":
        raise KnobRefused(knob=f"the tool type {kind[:40]!r}", reason="no such tool runs on this server",
                          remedy="send tools of your own, of type \"function\", with name and parameters")
    name = text(tool, "name", where)
    if not name:
        refuse(f"{where}name", "a non-empty string", tool.get("name"))
    function: dict[str, Any] = {"name": name, "parameters": mapping(tool, "parameters", where)}
    if text(tool, "description", where):
        function["description"] = tool["description"]
    if tool.get("strict") is not None:
        function["strict"] = boolean(tool, "strict", default=False)
    return {"type": "function", "function": function}


def _tool_choice(choice: Any, names: list[str]) -> dict[str, Any]:
    if choice in ("auto", "none"):
        return {"tool_choice": choice} if names else {}
    if choice == "required":
        if not names:
            raise RequestRefused("`tool_choice` \"required\" needs `tools` to choose from")
        return {"tool_choice": choice}
    if not isinstance(choice, dict) or choice.get("type") != "function":
        refuse("tool_choice", "auto, none, required, or an object of type function or allowed_tools", choice)
    name = text(choice, "name", "tool_choice.")
    if name not in names:
        refuse("tool_choice.name", "the name of one of `tools`", name)
    return {"tool_choice": {"type": "function", "function": {"name": name}}}


def _reasoning(payload: dict[str, Any]) -> dict[str, Any]:
    effort = text(mapping(payload, "reasoning"), "effort", "reasoning.")
    if not effort:
        return {}
    if effort not in EFFORTS:
        refuse("reasoning.effort", ", ".join(EFFORTS), effort)
    return thinking(False) if effort == "none" else thinking(True, effort)


def _text_format(payload: dict[str, Any]) -> dict[str, Any]:
    wanted = mapping(mapping(payload, "text"), "format", "text.")
    kind = wanted.get("type")
    if not wanted or kind == "text":
        return {}
    if kind == "json_object":
        return {"response_format": {"type": "json_object"}}
    if kind != "json_schema":
        refuse("text.format.type", "text, json_object or json_schema", kind)
    if not isinstance(wanted.get("schema"), dict):
        refuse("text.format.schema", "a JSON schema, an object", wanted.get("schema"))
    return {"response_format": {"type": "json_schema", "json_schema": {
        "name": text(wanted, "name", "text.format.") or "format", "schema": wanted["schema"],
        "strict": boolean(wanted, "strict", default=True)}}}
