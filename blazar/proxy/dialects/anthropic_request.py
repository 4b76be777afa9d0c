"""An Anthropic Messages request as the chat completion that asks a child the same."""

from itertools import groupby
from typing import Any

from blazar.errors import KnobRefused, RequestRefused
from blazar.proxy.dialects.anthropic_blocks import plain_text, shown_parts, tool_result_text
from blazar.proxy.dialects.fields import boolean, mapping, number, objects, refuse, strings, text
from blazar.proxy.json import dumps

ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
NO_RESULT = "[no result was given for this call]"


def chat(payload: dict[str, Any]) -> dict[str, Any]:
    """The child's request for /v1/messages."""
    asked = {"stream": True, "stream_options": {"include_usage": True}, "max_tokens": _max_tokens(payload),
             **prompt(payload)}
    stops = [stop for stop in strings(payload, "stop_sequences") if stop]
    if stops:
        asked["stop"] = stops
    for field in ("temperature", "top_p", "top_k"):
        value = number(payload, field)
        if value is not None:
            asked[field] = value
    return asked


def prompt(payload: dict[str, Any]) -> dict[str, Any]:
    """The part of the child's request that makes the prompt: all that counts as input."""
    return {"model": payload["model"], "messages": messages(payload), **_tools(payload), **_thinking(payload),
            **_output_format(payload)}


def messages(payload: dict[str, Any]) -> list[dict[str, Any]]:
    """The turns: system text first, and each tool's result right after the call it answers."""
    given = objects(payload, "messages")
    if not given:
        raise RequestRefused("`messages` must hold at least one message")
    turns = _system(payload)
    open_calls: list[str] = []
    numbered = [(_role(message, position), _blocks(message, position)) for position, message in enumerate(given)]
    for role, same in groupby(numbered, key=lambda pair: pair[0]):
        blocks = [block for _, more in same for block in more]
        if role == "assistant":
            turn, open_calls = _assistant(blocks)
            turns.append(turn)
        elif role == "user":
            turns.extend(_user(blocks, open_calls))
            open_calls = []
        else:
            turns.append({"role": role, "content": plain_text(blocks)})
    return turns


def _max_tokens(payload: dict[str, Any]) -> int:
    limit = payload.get("max_tokens")
    if limit is None:
        raise RequestRefused("`max_tokens` is missing: say how many tokens the answer may have, at least 1")
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        refuse("max_tokens", "a whole number, at least 1", limit)
    return limit


def _system(payload: dict[str, Any]) -> list[dict[str, Any]]:
    system = payload.get("system")
    if isinstance(system, list):
        blocks = objects(payload, "system")
        for position, block in enumerate(blocks):
            if block.get("type") != "text":
                refuse(f"system[{position}].type", "\"text\"", block.get("type"))
        words = plain_text(blocks)
    else:
        words = text(payload, "system")
    return [{"role": "system", "content": words}] if words else []


def _role(message: dict[str, Any], position: int) -> str:
    role = message.get("role")
    if not isinstance(role, str) or role not in ROLES:
        refuse(f"messages[{position}].role", "user or assistant", role)
    return ROLES[role]


def _blocks(message: dict[str, Any], position: int) -> list[dict[str, Any]]:
    """A message's content as blocks, each with its place for refusals."""
    content = message.get("content")
    where = f"messages[{position}]."
    if isinstance(content, str):
        return [{"type": "text", "text": content, "where": where}]
    if content is not None and not isinstance(content, list):
        refuse(f"{where}content", "a string or a list of blocks", content)
    return [{**block, "where": f"{where}content[{number_of_block}]."}
            for number_of_block, block in enumerate(objects(message, "content", where))]


def _assistant(blocks: list[dict[str, Any]]) -> tuple[dict[str, Any], list[str]]:
    """The assistant's turn, and the ids of its calls."""
    calls = [_call(block) for block in blocks if block.get("type") == "tool_use"]
    thoughts = [text(block, "thinking", block["where"]) for block in blocks if block.get("type") == "thinking"]
    said = [block for block in blocks if block.get("type") not in ("tool_use", "thinking", "redacted_thinking")]
    turn: dict[str, Any] = {"role": "assistant", "content": plain_text(said)}
    if any(thoughts):
        turn["reasoning_content"] = "\n".join(thoughts)
    if calls:
        turn["tool_calls"] = calls
    return turn, [call["id"] for call in calls]


def _call(block: dict[str, Any]) -> dict[str, Any]:
    where = block["where"]
    for field in ("id", "name"):
        if not text(block, field, where):
            refuse(f"{where}{field}", "a non-empty string", block.get(field))
    arguments = dumps(mapping(block, "input", where)).decode()
    return {"id": block["id"], "type": "function", "function": {"name": block["name"], "arguments": arguments}}


def _user(blocks: list[dict[str, Any]], open_calls: list[str]) -> list[dict[str, Any]]:
    """Results in the order of the calls they answer, then one user turn with everything else."""
    results: dict[str, str] = {}
    for block in blocks:
        if block.get("type") == "tool_result":
            answered = text(block, "tool_use_id", block["where"])
            if not answered or answered in results:
                refuse(f"{block['where']}tool_use_id", "the id of a call that has no other result", answered)
            results[answered] = tool_result_text(block)
    turns: list[dict[str, Any]] = [
        {"role": "tool", "tool_call_id": call, "content": results.pop(call, NO_RESULT)} for call in open_calls]
    turns += [{"role": "tool", "tool_call_id": call, "content": words} for call, words in results.items()]
    rest = [block for block in blocks if block.get("type") != "tool_result"]
    if rest or not turns:
        turns.append({"role": "user", "content": shown_parts(rest)})
    return turns


def _tools(payload: dict[str, Any]) -> dict[str, Any]:
    tools = [_tool(tool, f"tools[{position}].") for position, tool in enumerate(objects(payload, "tools"))]
    choice = mapping(payload, "tool_choice")
    asked: dict[str, Any] = {"tools": tools} if tools else {}
    if choice:
        asked |= _tool_choice(choice, [tool["function"]["name"] for tool in tools])
    return asked


def _tool(tool: dict[str, Any], where: str) -> dict[str, Any]:
    if tool.get("type") not in (None, "custom") and "input_schema" not in tool:
        raise KnobRefused(knob=f"the tool type {tool['type']!r}", reason="no such tool runs on this server",
                          remedy="send tools of your own, with name and input_schema")
    name = text(tool, "name", where)
    if not name:
        refuse(f"{where}name", "a non-empty string", tool.get("name"))
    function = {"name": name, "parameters": mapping(tool, "input_schema", where)}
    if text(tool, "description", where):
        function["description"] = tool["description"]
    return {"type": "function", "function": function}


def _tool_choice(choice: dict[str, Any], names: list[str]) -> dict[str, Any]:
    kind = choice.get("type")
    asked: dict[str, Any] = {}
    if kind in ("auto", "none") and not names:
        return {}
    if kind == "tool":
        name = text(choice, "name", "tool_choice.")
        if name not in names:
            refuse("tool_choice.name", "the name of one of `tools`", name)
        asked["tool_choice"] = {"type": "function", "function": {"name": name}}
    elif kind in ("auto", "any", "none"):
        if not names:
            raise RequestRefused("`tool_choice` \"any\" needs `tools` to choose from")
        asked["tool_choice"] = {"auto": "auto", "any": "required", "none": "none"}[kind]
    else:
        refuse("tool_choice.type", "auto, any, none or tool", kind)
    if boolean(choice, "disable_parallel_tool_use", default=False):
        asked["parallel_tool_calls"] = False
    return asked


def _thinking(payload: dict[str, Any]) -> dict[str, Any]:
    thinking = mapping(payload, "thinking")
    if not thinking:
        return {}
    kind = thinking.get("type")
    if kind not in ("enabled", "adaptive", "between_tools", "disabled"):
        refuse("thinking.type", "enabled, adaptive, between_tools or disabled", kind)
    return {"chat_template_kwargs": {"enable_thinking": kind != "disabled"}}


def _output_format(payload: dict[str, Any]) -> dict[str, Any]:
    """A JSON schema for the answer, from `output_config.format` or the older `output_format`."""
    wanted = mapping(mapping(payload, "output_config"), "format", "output_config.") or mapping(payload, "output_format")
    if not wanted:
        return {}
    if wanted.get("type") != "json_schema":
        refuse("output_config.format.type", "\"json_schema\"", wanted.get("type"))
    schema = mapping(wanted, "schema", "output_config.format.")
    return {"response_format": {"type": "json_schema",
                                "json_schema": {"name": "format", "strict": True, "schema": schema}}}
