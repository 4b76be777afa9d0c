"""An Ollama request as the chat completion that asks a child the same."""

from typing import Any

from blazar.proxy.assemble import arguments_of
from blazar.proxy.dialects import images
from blazar.proxy.dialects.fields import boolean, integer, mapping, objects, refuse, strings, text
from blazar.proxy.dialects.ollama_options import options
from blazar.proxy.dialects.shape import response_format, thinking
from blazar.proxy.exchange import ToolCall
from blazar.proxy.json import dumps

MOST_LOGPROBS = 20
LEVELS = ("low", "medium", "high", "max")
"""How hard a model may be asked to think."""
ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool"}


def chat(payload: dict[str, Any]) -> dict[str, Any]:
    """The child's request for /api/chat."""
    asked = {**common(payload), **chat_logprobs(payload), "messages": messages(payload)}
    tools = [_tool(tool, f"tools[{position}]") for position, tool in enumerate(objects(payload, "tools"))]
    if tools:
        asked["tools"] = tools
    return {**asked, **shape_of(payload)}


def messages(payload: dict[str, Any]) -> list[dict[str, Any]]:
    """The turns; calls of tools get the ids that Ollama's clients do not send, and results find theirs in order."""
    turns: list[dict[str, Any]] = []
    open_calls: list[dict[str, Any]] = []
    count = 0
    for position, message in enumerate(objects(payload, "messages")):
        where = f"messages[{position}]."
        role = text(message, "role", where).lower()
        if role not in ROLES:
            refuse(f"{where}role", "system, user, assistant or tool", message.get("role"))
        turn = {"role": ROLES[role], "content": content_of(text(message, "content", where), message, where)}
        if role == "assistant":
            if text(message, "thinking", where):
                turn["reasoning_content"] = message["thinking"]
            calls = [_call(call, count + offset, f"{where}tool_calls[{offset}].")
                     for offset, call in enumerate(objects(message, "tool_calls", where))]
            if calls:
                turn["tool_calls"] = calls
            open_calls = list(calls)
            count += len(calls)
        elif role == "tool":
            turn.update(_answered(message, open_calls, where))
        turns.append(turn)
    return turns


def common(payload: dict[str, Any]) -> dict[str, Any]:
    """What every request to a child has."""
    return {"model": payload["model"], "stream": True, "stream_options": {"include_usage": True}, **options(payload)}


def logprobs(payload: dict[str, Any]) -> int:
    """Of how many likely tokens the engine is to tell; 0 = of none. To tell that of the one it took, it needs a 1."""
    count = integer(payload, "top_logprobs")
    if count is not None and not 0 <= count <= MOST_LOGPROBS:
        refuse("top_logprobs", f"a number from 0 to {MOST_LOGPROBS}", count)
    return count or int(boolean(payload, "logprobs", default=False))


def chat_logprobs(payload: dict[str, Any]) -> dict[str, Any]:
    """The same, in the fields of a chat completion."""
    count = logprobs(payload)
    return {"logprobs": True, "top_logprobs": count} if count else {}


def shape_of(payload: dict[str, Any]) -> dict[str, Any]:
    """What `format` and `think` ask."""
    constraint = response_format(payload.get("format"))
    return {**({"response_format": constraint} if constraint else {}), **_think(payload.get("think"))}


def _think(wanted: Any) -> dict[str, Any]:
    if wanted is None or isinstance(wanted, bool):
        return thinking(wanted)
    if wanted not in LEVELS:
        refuse("think", "true, false, \"low\", \"medium\", \"high\" or \"max\"", wanted)
    return thinking(True, wanted)


def content_of(words: str, holder: dict[str, Any], where: str) -> str | list[dict[str, Any]]:
    """A turn's content: its text, and parts when it has images."""
    pictures = [images.part(data, f"`{where}images[{position}]`")
                for position, data in enumerate(strings(holder, "images", where))]
    if not pictures:
        return words
    return [{"type": "text", "text": words}, *pictures] if words else pictures


def _tool(tool: dict[str, Any], where: str) -> dict[str, Any]:
    """A tool as it came, but with an empty list of properties, which some languages send, as an empty object."""
    function = mapping(tool, "function", f"{where}.")
    parameters = mapping(function, "parameters", f"{where}.function.")
    if parameters.get("properties") == []:
        return {**tool, "function": {**function, "parameters": {**parameters, "properties": {}}}}
    mapping(parameters, "properties", f"{where}.function.parameters.")
    return {"type": "function", **tool}


def _call(call: dict[str, Any], number_of_call: int, where: str) -> dict[str, Any]:
    function = mapping(call, "function", where)
    name = text(function, "name", f"{where}function.")
    if not name:
        refuse(f"{where}function.name", "the name of a tool", function.get("name"))
    return {"id": text(call, "id", where) or f"call_{number_of_call}", "type": "function",
            "function": {"name": name, "arguments": _arguments(function.get("arguments"), where)}}


def _arguments(given: Any, where: str) -> str:
    """Arguments of an earlier call as JSON text. Text that was cut off stays visible inside an object."""
    if isinstance(given, str):
        if arguments_of(ToolCall("", "", given)) is None:
            return dumps({"arguments": given}).decode()
        return given or "{}"
    if given is not None and not isinstance(given, dict):
        refuse(f"{where}function.arguments", "an object", given)
    return dumps(given or {}).decode()


def _answered(message: dict[str, Any], open_calls: list[dict[str, Any]], where: str) -> dict[str, Any]:
    """The id and name of a tool's result: as given, else those of the first open call, by name if it has one."""
    given = text(message, "tool_call_id", where)
    name = text(message, "tool_name", where) or text(message, "name", where)
    for call in open_calls:
        if call["id"] == given if given else name in ("", call["function"]["name"]):
            open_calls.remove(call)
            return {"tool_call_id": call["id"], "name": name or call["function"]["name"]}
    # Clients that cut long histories off leave results whose calls are gone; some send neither names nor ids.
    return {"tool_call_id": given or f"call_{name or 'lost'}", **({"name": name} if name else {})}


