"""The tools of a Responses request: what a model is given of them, and whose call it is that comes back.

A model calls functions. A tool of type `custom` becomes a function of one text, and those of a namespace get its name
before their own. What only OpenAI runs is passed over beside others, since agents offer it to every server.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from blazar.errors import KnobRefused, RequestRefused
from blazar.proxy.dialects.fields import boolean, mapping, objects, refuse, text
from blazar.proxy.json import BadJson, dumps, loads

FUNCTION, CUSTOM, NAMESPACE = "function", "custom", "namespace"
CALLS = {FUNCTION: "function_call", CUSTOM: "custom_tool_call"}
"""The type of an item that calls a tool, by the tool's."""
ONE_TEXT = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"],
            "additionalProperties": False}
"""The parameters of a function that stands for a custom tool."""


@dataclass(frozen=True)
class Tool:
    """One tool that a model may call; `name` and `namespace` are the client's."""

    kind: str
    name: str
    namespace: str
    function: Mapping[str, Any]
    """As the child has it."""

    @property
    def call(self) -> dict[str, Any]:
        """What an item that calls it says of it."""
        return {"name": self.name, **({"namespace": self.namespace} if self.namespace else {})}


def function_name(name: str, namespace: str) -> str:
    """What a model knows a tool by."""
    return f"{namespace}__{name}" if namespace else name


def tools(payload: dict[str, Any]) -> list[Tool]:
    """Those of a request. Raises KnobRefused when it has some, but none that runs anywhere here."""
    offered = objects(payload, "tools")
    found = list(_usable(offered, "tools", ""))
    for tool in offered if not found else ():
        if tool.get("type") != NAMESPACE:
            raise KnobRefused(knob=f"the tool type {str(tool['type'])[:40]!r}",
                              reason="no such tool runs on this server",
                              remedy="send tools of your own, of type \"function\", with name and parameters")
    return found


def shown(payload: dict[str, Any]) -> list[dict[str, Any]]:
    """What a response says of its tools: those that the model was given."""
    return [tool for tool in payload.get("tools") or [] if tool["type"] in (*CALLS, NAMESPACE)]


def asked(payload: dict[str, Any]) -> dict[str, Any]:
    """The fields of the child's request that concern tools."""
    given = tools(payload)
    choice, names = payload.get("tool_choice"), [tool.function["name"] for tool in given]
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        allowed = {_chosen(tool, "tool_choice.tools[].") for tool in objects(choice, "tools", "tool_choice.")}
        given = [tool for tool in given if tool.function["name"] in allowed]
        choice = text(choice, "mode", "tool_choice.") or "auto"
    fields: dict[str, Any] = {"tools": [{"type": "function", "function": tool.function} for tool in given]
                              } if given else {}
    if choice is not None:
        fields |= _tool_choice(choice, names)
    parallel = boolean(payload, "parallel_tool_calls", default=True)
    if given and payload.get("parallel_tool_calls") is not None:
        fields["parallel_tool_calls"] = parallel
    return fields


def custom_arguments(words: str) -> str:
    """The arguments of the function that stands for a custom tool."""
    return dumps({"input": words}).decode()


def custom_input(arguments: str) -> str:
    """The text that was meant by them; what is no such object is taken as the text."""
    try:
        value = loads(arguments)
    except BadJson:
        return arguments
    words = value.get("input", None if value else "") if isinstance(value, dict) else None
    return words if isinstance(words, str) else arguments


def _usable(offered: list[dict[str, Any]], field: str, namespace: str) -> Iterator[Tool]:
    for position, tool in enumerate(offered):
        where = f"{field}[{position}]."
        kind = text(tool, "type", where) or refuse(f"{where}type", "the kind of the tool, like \"function\"", None)
        if kind == NAMESPACE and not namespace:
            yield from _usable(objects(tool, "tools", where), f"{where}tools", _name(tool, where))
        elif kind in CALLS:
            name = _name(tool, where)
            function = {"name": function_name(name, namespace), **_READERS[kind](tool, where)}
            yield Tool(kind, name, namespace, function)


def _name(tool: dict[str, Any], where: str) -> str:
    return text(tool, "name", where) or refuse(f"{where}name", "a non-empty string", tool.get("name"))


def _function(tool: dict[str, Any], where: str) -> dict[str, Any]:
    function: dict[str, Any] = {"parameters": mapping(tool, "parameters", where)}
    if text(tool, "description", where):
        function["description"] = tool["description"]
    if tool.get("strict") is not None:
        function["strict"] = boolean(tool, "strict", default=False)
    return function


def _custom(tool: dict[str, Any], where: str) -> dict[str, Any]:
    form = mapping(tool, "format", where)
    said = [text(tool, "description", where)]
    if form.get("type") == "grammar":
        said.append(f"Its input follows this grammar ({text(form, 'syntax', where)}):\n"
                    f"{text(form, 'definition', where)}")
    description = "\n\n".join(filter(None, said))
    return {"parameters": ONE_TEXT, **({"description": description} if description else {})}


_READERS = {FUNCTION: _function, CUSTOM: _custom}


def _tool_choice(choice: Any, names: list[str]) -> dict[str, Any]:
    if choice in ("auto", "none"):
        return {"tool_choice": choice} if names else {}
    if choice == "required":
        if not names:
            raise RequestRefused("`tool_choice` \"required\" needs `tools` to choose from")
        return {"tool_choice": choice}
    if not isinstance(choice, dict) or choice.get("type") not in tuple(CALLS):
        refuse("tool_choice", "auto, none, required, or an object of type function, custom or allowed_tools", choice)
    name = _chosen(choice, "tool_choice.")
    if name not in names:
        refuse("tool_choice.name", "the name of one of `tools`", name)
    return {"tool_choice": {"type": "function", "function": {"name": name}}}


def _chosen(tool: dict[str, Any], where: str) -> str:
    return function_name(text(tool, "name", where), text(tool, "namespace", where))
