"""What a request demands of the form of its answer, in any dialect, and what the engine is asked for it.

All dialects ask a child by an OpenAI request, so that is where it is read. Tools of which one must be called become the
schema of such a call: the engine is then held to it whatever the model's template knows of tools, and what it writes is
handed on as the call. (llama.cpp reads a choice that names a tool as "auto", and "required" lets the model talk where
its template knows no tools.)
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from blazar.errors import RequestRefused, SchemaRefused
from blazar.proxy.dialects.fields import mapping, objects, refuse, text
from blazar.proxy.forced import form_of
from blazar.proxy.json import dumps
from blazar.proxy.schemas import LITERAL
from blazar.units import format_bytes

ASKS: Mapping[str, frozenset[str]] = {
    # dialect: the fields of its requests that may demand a form
    "openai": frozenset({"response_format", "json_schema", "grammar", "tool_choice"}),
    "ollama": frozenset({"format"}),
    "anthropic": frozenset({"output_config", "output_format", "tool_choice"}),
    "responses": frozenset({"text", "tool_choice"}),
}
ENFORCE = "x-blazar-enforce"
"""The header that says whether an answer that breaks its form is refused."""
MOST = 256 << 10
"""Bytes of the largest schema, and of the largest grammar."""
FREE = ("auto", "none")
"""Choices of tools that leave the model to itself."""
ANY_OBJECT = {"type": "object"}
KINDS = "{\"type\": \"json_schema\", \"json_schema\": {\"name\": ..., \"schema\": {...}}}, \"json_object\" or \"text\""


@dataclass(frozen=True)
class Constraint:
    """What an answer is held to. `kind` is json_schema, json_object or gbnf."""

    kind: str
    schema: dict[str, Any] | None = None
    where: str = ""
    """The field that holds the schema."""
    tools: Mapping[str, tuple[dict[str, Any], str]] = field(default_factory=dict)
    """Where the answer has to be a call: the tools to choose from, each with the schema of its arguments and the field
    that holds it."""


def demands(dialect: str, payload: Mapping[str, Any]) -> bool:
    """Whether a request may demand a form, or demands one wrongly; that of most does not."""
    given = {name: payload[name] for name in ASKS[dialect].intersection(payload) if payload[name] not in (None, "")}
    choice = given.get("tool_choice")
    if (choice.get("type") if isinstance(choice, dict) else choice) in FREE:
        del given["tool_choice"]
    if dialect == "responses" and "text" in given and not given["text"].get("format"):
        del given["text"]
    return bool(given)


def constrain(asked: dict[str, Any], chat: bool) -> tuple[Constraint | None, dict[str, Any]]:
    """The constraint in a child's request, and the request as the engine must have it to know of it: the same, or
    another.

    Raises RequestRefused for what names no form, and SchemaRefused for what the engine's grammar cannot do.
    """
    choice = asked.get("tool_choice") if chat else None
    if isinstance(choice, dict) and choice.get("type") == "allowed_tools":
        asked = _narrow(asked, mapping(choice, "allowed_tools", "tool_choice."))
        choice = asked["tool_choice"]
    if isinstance(choice, dict):
        return _forced(asked, only=_named(choice))
    if choice == "required":
        return _forced(asked)
    wanted = _format(asked)
    schema = asked.get("json_schema")
    grammar = text(asked, "grammar")
    if schema is not None and not isinstance(schema, dict):
        refuse("json_schema", "a JSON schema, an object", schema)
    if (wanted is not None) + (schema is not None) + bool(grammar) > 1:
        raise RequestRefused("`response_format`, `json_schema` and `grammar` each hold the answer to a form: send one")
    if grammar:
        _check_size("grammar", len(grammar))
        return Constraint("gbnf"), asked
    found = wanted or (Constraint("json_schema", schema, "json_schema") if schema is not None else None)
    if found is not None and found.schema:
        check(found.schema, found.where)
    if wanted is not None and not chat:  # llama-server's completions know nothing of `response_format`
        asked = {**asked, "response_format": None, "json_schema": wanted.schema or ANY_OBJECT}
    return found, asked


def _format(asked: dict[str, Any]) -> Constraint | None:
    """What `response_format` says."""
    wanted = asked.get("response_format")
    if wanted is None:
        return None
    if not isinstance(wanted, dict):
        refuse("response_format", KINDS, wanted)
    kind = wanted.get("type")
    if kind == "text":
        return None
    if kind == "json_object":
        schema = mapping(wanted, "schema", "response_format.")
        return Constraint("json_schema", schema, "response_format.schema") if schema else Constraint("json_object")
    if kind != "json_schema":
        refuse("response_format.type", "json_schema, json_object or text", kind)
    where = "response_format.json_schema.schema"
    given = mapping(wanted, "json_schema", "response_format.").get("schema")
    if not isinstance(given, dict):
        refuse(where, "a JSON schema, an object", given)
    return Constraint("json_schema", given, where)


def _named(choice: dict[str, Any]) -> str:
    """The tool that a choice names."""
    if choice.get("type") != "function":
        refuse("tool_choice.type", "function or allowed_tools", choice.get("type"))
    return text(mapping(choice, "function", "tool_choice."), "name", "tool_choice.function.") or refuse(
        "tool_choice.function.name", "the name of one of `tools`", None)


def _forced(asked: dict[str, Any], only: str = "") -> tuple[Constraint, dict[str, Any]]:
    """One of the tools must be called, `only` that one if given: the engine is held to the form of a call.

    Of tools the model is shown those that it may call, and none that the engine would read calls of.
    """
    tools: dict[str, tuple[dict[str, Any], str]] = {}
    shown = []
    for position, function in functions_of(asked):
        name = text(function, "name", f"tools[{position}].function.")
        if name and only in ("", name):
            where = f"tools[{position}].function.parameters"
            schema = {**ANY_OBJECT, **mapping(function, "parameters", f"tools[{position}].function.")}
            check(schema, where)
            tools[name] = schema, where
            shown.append(asked["tools"][position])
    if not tools and only:
        refuse("tool_choice.function.name", "the name of one of `tools`", only)
    if not tools:
        raise RequestRefused("`tool_choice` \"required\" needs `tools` to choose from, functions with a name")
    schema = form_of({name: schema for name, (schema, _) in tools.items()})
    _check_size("tools", len(dumps(schema)))
    form = {"type": "json_schema", "json_schema": {"name": only or "call", "strict": True, "schema": schema}}
    others = {name: value for name, value in asked.items() if name not in ("json_schema", "grammar")}
    return Constraint("json_schema", tools=tools), {**others, "tools": shown, "tool_choice": "none",
                                                    "response_format": form}


def _narrow(asked: dict[str, Any], allowed: dict[str, Any]) -> dict[str, Any]:
    """Leave only the tools that may be called."""
    names = [mapping(tool, "function", "tool_choice.allowed_tools.tools[].").get("name")
             for tool in objects(allowed, "tools", "tool_choice.allowed_tools.")]
    tools = [asked["tools"][position] for position, function in functions_of(asked) if function.get("name") in names]
    return {**asked, "tools": tools, "tool_choice": text(allowed, "mode", "tool_choice.allowed_tools.") or "auto"}


def functions_of(asked: dict[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The functions that a child's request offers, each with its place. Raises RequestRefused."""
    for position, tool in enumerate(objects(asked, "tools")):
        yield position, mapping(tool, "function", f"tools[{position}].")


# -- what the engine's grammar cannot do -------------------------------------------------------------------


def check(schema: dict[str, Any], where: str) -> None:
    """Refuse a schema that no engine can be held to. Raises SchemaRefused."""
    _check_size(where, len(dumps(schema)))
    for place, reference in _references(schema, where):
        if reference == "#":
            raise SchemaRefused(where=place, problem="it refers to the whole schema",
                                remedy="put what repeats under `$defs` and refer to that, like \"#/$defs/node\"")
        if not reference.startswith("#/"):
            raise SchemaRefused(where=place, problem=f"{reference[:200]!r} is not within this schema, and nothing is "
                                "fetched", remedy="put what it means under `$defs`, like \"#/$defs/node\"")
        if not _leads(schema, reference):
            raise SchemaRefused(where=place, problem=f"{reference[:200]!r} leads nowhere: nothing stands there",
                                remedy="correct it, or send the part that it names with the schema")


def _check_size(where: str, size: int) -> None:
    if size > MOST:
        raise SchemaRefused(where=where, problem=f"it has {format_bytes(size)}, the limit is {format_bytes(MOST)}",
                            remedy="send less of it, and check the rest yourself")


def _references(node: Any, place: str) -> Iterator[tuple[str, str]]:
    """Each `$ref` and its place."""
    rest = [(node, place)]
    while rest:
        node, place = rest.pop()
        if isinstance(node, list):
            rest += [(item, f"{place}[{position}]") for position, item in enumerate(node)]
        elif isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                yield f"{place}.$ref", node["$ref"]
            rest += [(value, f"{place}.{key}") for key, value in node.items() if key not in LITERAL]


def _leads(schema: Any, reference: str) -> bool:
    """Whether the reference names a part of the schema that says anything."""
    node, seen = schema, set()
    while isinstance(node, dict | list):
        for step in reference[2:].split("/"):
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and step in node:
                node = node[step]
            elif isinstance(node, list) and step.isdecimal() and int(step) < len(node):
                node = node[int(step)]
            else:
                return False
        following = node.get("$ref") if isinstance(node, dict) and len(node) == 1 else None
        if not isinstance(following, str) or not following.startswith("#/"):
            return True
        if reference in seen:
            return False  # a ring of references that never says anything
        seen.add(reference)
        node, reference = schema, following
    return True
