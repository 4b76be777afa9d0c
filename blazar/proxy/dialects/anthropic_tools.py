"""Anthropic's tools, and which of them the model has to call, as a chat completion says it."""

from typing import Any, NoReturn

from blazar.errors import KnobRefused, RequestRefused
from blazar.proxy.dialects.fields import boolean, mapping, objects, refuse, text

TRAINED = ("bash", "text_editor", "memory", "computer", "browser")
"""Beginnings of types that a client runs itself, whose schema only Anthropic's own models know by heart."""


def tools(payload: dict[str, Any]) -> dict[str, Any]:
    """`tools` of the child's request, with `tool_choice` if the request says anything about it."""
    listed = [_tool(tool, f"tools[{position}].") for position, tool in enumerate(objects(payload, "tools"))]
    choice = mapping(payload, "tool_choice")
    asked: dict[str, Any] = {"tools": listed} if listed else {}
    return asked | _choice(choice, listed) if choice else asked


def _tool(tool: dict[str, Any], where: str) -> dict[str, Any]:
    if tool.get("type") not in (None, "custom"):
        _refuse_type(text(tool, "type", where))
    name = text(tool, "name", where)
    if not name:
        refuse(f"{where}name", "a non-empty string", tool.get("name"))
    function: dict[str, Any] = {"name": name, "parameters": mapping(tool, "input_schema", where)}
    if text(tool, "description", where):
        function["description"] = tool["description"]
    if boolean(tool, "strict", default=False, where=where):
        function["strict"] = True
    return {"type": "function", "function": function}


def _refuse_type(kind: str) -> NoReturn:
    if kind.startswith(TRAINED):
        raise KnobRefused(knob=f"the tool type {kind!r}", reason="only Anthropic's own models know its schema by heart",
                          remedy="send it as a tool of your own, with name, description and input_schema")
    raise KnobRefused(knob=f"the tool type {kind!r}", reason="no such tool runs on this server",
                      remedy="send tools of your own, with name and input_schema, and run them where you are")


def _choice(choice: dict[str, Any], listed: list[dict[str, Any]]) -> dict[str, Any]:
    kind = choice.get("type")
    if kind not in ("auto", "any", "none", "tool"):
        refuse("tool_choice.type", "auto, any, none or tool", kind)
    alone = boolean(choice, "disable_parallel_tool_use", default=False, where="tool_choice.")
    if kind == "tool":
        return {"tool_choice": {"type": "function", "function": {"name": _named(choice, listed)}}}
    if kind == "any" and not listed:
        raise RequestRefused("`tool_choice` \"any\" needs `tools` to choose from")
    if not listed:
        return {}
    asked: dict[str, Any] = {"tool_choice": "required" if kind == "any" else kind}
    return {**asked, "parallel_tool_calls": False} if alone else asked


def _named(choice: dict[str, Any], listed: list[dict[str, Any]]) -> str:
    name = text(choice, "name", "tool_choice.")
    if not name:
        raise RequestRefused("`tool_choice.name` is missing: a choice of the type \"tool\" says which of `tools` is to "
                             "be called; for a call of any of them, send {\"type\": \"any\"}")
    if name not in [tool["function"]["name"] for tool in listed]:
        refuse("tool_choice.name", "the name of one of `tools`", name)
    return name
