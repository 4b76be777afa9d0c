"""An Anthropic request's system text and messages as the turns of a chat completion; no content block is lost."""

from itertools import groupby
from typing import Any

from blazar.errors import RequestRefused
from blazar.proxy.dialects.anthropic_blocks import check_document, plain_text, shown_parts, tool_result
from blazar.proxy.dialects.fields import mapping, objects, refuse, text
from blazar.proxy.json import dumps

ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
NO_RESULT = "[no result was given for this call]"
THOUGHTS = ("thinking", "redacted_thinking")


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
    said = [block for block in blocks if block.get("type") not in ("tool_use", *THOUGHTS)]
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
    results: dict[str, str | list[dict[str, Any]]] = {}
    for block in blocks:
        if block.get("type") == "tool_result":
            answered = text(block, "tool_use_id", block["where"])
            if not answered or answered in results:
                refuse(f"{block['where']}tool_use_id", "the id of a call that has no other result", answered)
            results[answered] = tool_result(block)
    turns: list[dict[str, Any]] = [
        {"role": "tool", "tool_call_id": call, "content": results.pop(call, NO_RESULT)} for call in open_calls]
    turns += [{"role": "tool", "tool_call_id": call, "content": content} for call, content in results.items()]
    rest = [block for block in blocks if block.get("type") not in ("tool_result", *THOUGHTS)]
    for block in rest:
        if block.get("type") == "document":
            check_document(block)
    if rest or not turns:
        turns.append({"role": "user", "content": shown_parts(rest)})
    return turns
