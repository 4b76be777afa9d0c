"""The items of a response: those that come as `input`, in one form, and all of them as turns of a chat completion."""

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from blazar.errors import KnobRefused, RequestRefused
from blazar.proxy.dialects import images
from blazar.proxy.dialects.fields import objects, refuse, text
from blazar.proxy.dialects.responses_tools import custom_arguments, function_name

ROLES = {"user": "user", "assistant": "assistant", "system": "system", "developer": "system"}
NO_RESULT = "[no result was given for this call]"
PREFIXES = {"message": "msg", "function_call": "fc", "function_call_output": "fco", "reasoning": "rs",
            "custom_tool_call": "ctc", "custom_tool_call_output": "ctco"}
"""Kinds of items that are known here, and how their ids begin."""
CALLS, RESULTS = ("function_call", "custom_tool_call"), ("function_call_output", "custom_tool_call_output")
TEXTS = ("input_text", "output_text", "text", "summary_text", "reasoning_text", "refusal")
"""Kinds of parts that are words."""
IMAGE = "input_image"

Item = dict[str, Any]


def given(payload: dict[str, Any], new_id: Callable[[str], str]) -> list[Item]:
    """The request's `input` as items, each with type and id; a message's content is a list of parts."""
    asked = payload.get("input")
    if asked is None:
        return []
    if isinstance(asked, str):
        return [_item({"role": "user", "content": asked}, "input.", new_id)]
    if not isinstance(asked, list):
        refuse("input", "a string or a list of items", asked)
    return [_item(item, f"input[{position}].", new_id) for position, item in enumerate(objects(payload, "input"))]


def turns(items: Sequence[Item], whole: bool) -> list[dict[str, Any]]:
    """The turns of a chat; each tool's result stands right after the call it answers.

    Unless the items are the `whole` conversation, results may answer calls that are not among them.
    """
    calls = {item["call_id"] for item in items if item["type"] in CALLS}
    results: dict[str, str] = {}
    for item in items:
        if item["type"] in RESULTS:
            answered = item["call_id"]
            if answered in results or (whole and answered not in calls):
                raise RequestRefused(f"the {item['type']} of {answered!r} answers no call before it, or one "
                                     "that has another: send call and output as items of `input`, or name the "
                                     "response that made the call as `previous_response_id`")
            results[answered] = _plain(item["output"])
    found: list[dict[str, Any]] = []
    for side, run in groupby(items, key=_side):
        if side == "assistant":
            found += _assistant(list(run), results)
        elif side != "result":
            found += [{"role": ROLES[item["role"]], "content": _shown(item)} for item in run]
    return found


def _side(item: Item) -> str:
    if item["type"] in RESULTS:
        return "result"
    return "assistant" if item["type"] != "message" or item["role"] == "assistant" else "other"


def _assistant(items: list[Item], results: dict[str, str]) -> list[dict[str, Any]]:
    """One turn for all that the model said in one go, and the results of its calls."""
    said = [_plain(item["content"]) for item in items if item["type"] == "message"]
    turn: dict[str, Any] = {"role": "assistant", "content": "\n".join(said)}
    thoughts = [_plain(item.get("content") or item.get("summary") or "") for item in items
                if item["type"] == "reasoning"]
    if any(thoughts):
        turn["reasoning_content"] = "\n".join(thoughts)
    calls = [{"id": item["call_id"], "type": "function", "function": _called(item)}
             for item in items if item["type"] in CALLS]
    if calls:
        turn["tool_calls"] = calls
    return [turn, *({"role": "tool", "tool_call_id": call["id"], "content": results.get(call["id"], NO_RESULT)}
                    for call in calls)]


def _called(item: Item) -> dict[str, Any]:
    """The function that a call stands for."""
    arguments = custom_arguments(item["input"]) if item["type"] == "custom_tool_call" else item.get("arguments")
    return {"name": function_name(item["name"], item.get("namespace") or ""), "arguments": arguments or "{}"}


def _shown(item: Item) -> str | list[dict[str, Any]]:
    """What a turn shows: a string when all is text, parts when there are images."""
    parts = item["content"]
    if all(part["type"] != IMAGE for part in parts):
        return _plain(parts)
    return [images.url_part(part["image_url"], "an input_image's `image_url`") if part["type"] == IMAGE
            else {"type": "text", "text": _words(part)} for part in parts]


def _plain(content: str | list[dict[str, Any]]) -> str:
    return content if isinstance(content, str) else "\n".join(_words(part) for part in content)


def _words(part: dict[str, Any]) -> str:
    return "[image]" if part["type"] == IMAGE else str(part.get("text") or part.get("refusal") or "")


# -- reading ---------------------------------------------------------------------------------------------


def _item(item: Item, where: str, new_id: Callable[[str], str]) -> Item:
    kind = item.get("type") or ("message" if "role" in item else None)
    if not isinstance(kind, str):
        refuse(f"{where}type", "the kind of the item, like \"message\"", kind)
    if kind == "item_reference":
        raise KnobRefused(knob=f"`{where}type` \"item_reference\"", reason="single items cannot be looked up here",
                          remedy="send the item itself, or name its response as `previous_response_id`")
    if kind not in PREFIXES:
        raise KnobRefused(knob=f"`{where}type` {kind[:40]!r}", reason="no such tool runs on this server",
                          remedy=f"send items of the types {', '.join(PREFIXES)}")
    read = _READERS[kind](item, where)
    return {"id": text(item, "id", where) or new_id(PREFIXES[kind]), "type": kind, **read}


def _message(item: Item, where: str) -> Item:
    role = text(item, "role", where)
    if role not in ROLES:
        refuse(f"{where}role", "user, assistant, system or developer", role)
    kind = "output_text" if role == "assistant" else "input_text"
    return {"role": role, "status": "completed", "content": _parts(item, "content", where, kind)}


def _call(item: Item, where: str) -> Item:
    words = "arguments" if item["type"] == "function_call" else "input"
    namespace = text(item, "namespace", where)
    return {"call_id": _needed(item, "call_id", where), "name": _needed(item, "name", where),
            **({"namespace": namespace} if namespace else {}), words: text(item, words, where), "status": "completed"}


def _result(item: Item, where: str) -> Item:
    output = item.get("output")
    return {"call_id": _needed(item, "call_id", where), "status": "completed",
            "output": _parts(item, "output", where, "input_text") if isinstance(output, list)
            else text(item, "output", where)}


def _reasoning(item: Item, where: str) -> Item:
    return {field: _parts(item, field, where, "reasoning_text") for field in ("summary", "content")}


_READERS: dict[str, Callable[[Item, str], Item]] = {
    "message": _message, "function_call": _call, "function_call_output": _result, "reasoning": _reasoning,
    "custom_tool_call": _call, "custom_tool_call_output": _result}


def _needed(item: Item, field: str, where: str) -> str:
    return text(item, field, where) or refuse(where + field, "a non-empty string", item.get(field))


def _parts(item: Item, field: str, where: str, kind: str) -> list[dict[str, Any]]:
    """A string, or a list of parts, as a list of parts; a string becomes one of that kind."""
    content = item.get(field)
    if isinstance(content, str):
        return [{"type": kind, "text": content}]
    if content is not None and not isinstance(content, list):
        refuse(where + field, "a string or a list of parts", content)
    return [_part(part, f"{where}{field}[{position}].") for position, part in enumerate(objects(item, field, where))]


def _part(part: dict[str, Any], where: str) -> dict[str, Any]:
    kind = part.get("type")
    if kind in TEXTS:
        text(part, "refusal" if kind == "refusal" else "text", where)
        return part
    if kind == IMAGE and not part.get("file_id"):
        url = _needed(part, "image_url", where)
        images.url_part(url, f"`{where}image_url`")
        return part
    if kind in (IMAGE, "input_file"):
        raise KnobRefused(knob=f"`{where}type` \"{kind}\" by file", reason="this server reads no files",
                          remedy="send an image as `image_url`, with a data: URL, and a text as \"input_text\"")
    refuse(f"{where}type", "input_text, input_image or output_text", kind)
