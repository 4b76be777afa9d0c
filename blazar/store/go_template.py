"""Ollama's Go templates as Jinja, as far as they are simple: fields, conditions, and one loop over the messages.

Two forms are known. One uses `.System`, `.Prompt` and `.Response` and stands for one exchange; the other loops over
`.Messages` with `.Role` and `.Content`. Text is written as Jinja strings, so that no rule of Jinja on white space can
touch it. Anything else (variables, functions, tools) is not translated.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

MAX_TEMPLATE = 1 << 15
"""Characters of the longest template that is translated."""
MAX_DEPTH = 32

_TOKEN = re.compile(r'\s*(\(|\)|"(?:[^"\\\n]|\\["\\nt])*"|\$?\.[A-Za-z]+|[a-z]+)')
_RANGE = re.compile(r"range\s+(?:\$\w+\s*,\s*\$\w+\s*:=\s*)?\$?\.Messages")
_JOINERS = {"and": " and ", "or": " or ", "eq": " == ", "ne": " != "}
_ESCAPES = {"\\": "\\\\", "'": "\\'", "\n": "\\n", "\r": "\\r", "\t": "\\t"}

_OUTER = {".System": "ns.system", ".Prompt": "ns.prompt", ".Response": "''"}
_EXCHANGE = {**_OUTER, ".Response": "message.content"}
_INNER = {".Role": "message.role", ".Content": "message.content", "$.System": "ns.system"}

_GATHER = ("{%- set ns = namespace(system='', prompt='') -%}{%- for message in messages -%}"
           "{%- if message.role == 'system' -%}{%- set ns.system = message.content -%}")
_PROMPT = ("{%- elif message.role == 'user' -%}{%- if ns.prompt -%}"
           "{%- set ns.prompt = ns.prompt + '\\n\\n' + message.content -%}{%- else -%}"
           "{%- set ns.prompt = message.content -%}{%- endif -%}{%- elif message.role == 'assistant' -%}")
_CLEAR = "{%- set ns.system = '' -%}{%- set ns.prompt = '' -%}"


_Tree = tuple[Any, ...]
"""An expression: `("text", t)`, `("name", n)`, or `not`, `and`, `or`, `eq`, `ne` and the trees of its terms."""


class _Unknown(Exception):
    """Something that is not translated."""


@dataclass
class _Node:
    """A `text`, an `output`, a `range`, or an `if` with its branches: condition ('' for else) and nodes."""

    kind: str
    text: str = ""
    nodes: list["_Node"] = field(default_factory=list)
    branches: list[tuple[str, list["_Node"]]] = field(default_factory=list)


def to_jinja(template: str) -> str | None:
    """The same as Jinja, or None for a template that is not simple."""
    if len(template) > MAX_TEMPLATE:
        return None
    try:
        nodes = _Parser(template).nodes()
        if any(node.kind == "range" for node in nodes):
            before, _ = _before_response(nodes)
            return _GATHER + "{%- endif -%}{%- endfor -%}" + _render(before, _OUTER)
        before, found = _before_response(nodes)
        exchange = _render(nodes, _EXCHANGE) + ("" if found else "{{ message.content }}")
        return (f"{_GATHER}{_PROMPT}{exchange}{_CLEAR}{{%- endif -%}}{{%- endfor -%}}"
                f"{{%- if add_generation_prompt or ns.prompt -%}}{_render(before, _OUTER)}{{%- endif -%}}")
    except _Unknown:
        return None


def filled(template: str, system: str, prompt: str) -> str | None:
    """What such a template makes of one question, up to where the answer begins; None for one that is not simple."""
    if len(template) > MAX_TEMPLATE or "{%" in template:
        return None
    turns = [{".Role": role, ".Content": said} for role, said in (("system", system), ("user", prompt)) if said]
    try:
        nodes, _ = _before_response(_Parser(template).nodes())
        return _filled(nodes, {".System": system, ".Prompt": prompt, ".Response": ""}, turns)
    except _Unknown:
        return None


class _Parser:
    def __init__(self, template: str) -> None:
        self._parts = _parts(template)
        self._at = 0

    def nodes(self) -> list[_Node]:
        found, end = self._list(0)
        if end:
            raise _Unknown
        return found

    def _list(self, depth: int) -> tuple[list[_Node], str]:
        """Nodes up to an `else` or `end`, and that action; '' at the end of the template."""
        if depth > MAX_DEPTH:
            raise _Unknown
        found: list[_Node] = []
        while self._at < len(self._parts):
            is_action, text = self._parts[self._at]
            self._at += 1
            if not is_action:
                found.append(_Node("text", text))
            elif text == "end" or text == "else" or text.startswith("else if "):
                return found, text
            elif text.startswith("if "):
                found.append(self._if(text.removeprefix("if "), depth))
            elif _RANGE.fullmatch(text):
                nodes, end = self._list(depth + 1)
                if end != "end" or depth:
                    raise _Unknown
                found.append(_Node("range", nodes=nodes))
            elif not (text.startswith("/*") and text.endswith("*/")):
                found.append(_Node("output", text))
        return found, ""

    def _if(self, condition: str, depth: int) -> _Node:
        node = _Node("if")
        while True:
            nodes, end = self._list(depth + 1)
            node.branches.append((condition, nodes))
            if end == "end":
                return node
            if not end or not condition:
                raise _Unknown
            condition = end.removeprefix("else if ") if end != "else" else ""


def _parts(template: str) -> list[tuple[bool, str]]:
    """Texts and actions (True) in turn, white space trimmed where the actions say so."""
    found: list[tuple[bool, str]] = []
    at, trims = 0, False
    while True:
        start = template.find("{{", at)
        text = template[at:start] if start >= 0 else template[at:]
        text = text.lstrip() if trims else text
        if start < 0:
            return [(is_action, part) for is_action, part in [*found, (False, text)] if is_action or part]
        end = template.find("}}", start)
        if end < 0:
            raise _Unknown
        action = template[start + 2:end]
        found.append((False, text.rstrip() if action.startswith("-") else text))
        found.append((True, action.removeprefix("-").removesuffix("-").strip()))
        at, trims = end + 2, action.endswith("-")


def _before_response(nodes: Sequence[_Node]) -> tuple[list[_Node], bool]:
    """What stands before the answer of the model, and whether its place was found."""
    kept: list[_Node] = []
    for node in nodes:
        if node.kind == "output" and node.text == ".Response":
            return kept, True
        for condition, inner in node.branches:
            before, found = _before_response(inner)
            if found:
                return kept + ([] if condition == ".Response" else before), True
        kept.append(node)
    return kept, False


def _render(nodes: Sequence[_Node], names: Mapping[str, str]) -> str:
    written = []
    for node in nodes:
        if node.kind == "text":
            written.append(f"{{{{ {_quoted(node.text)} }}}}")
        elif node.kind == "output":
            written.append(f"{{{{ {_expression(node.text, names)} }}}}")
        elif node.kind == "range":
            written.append("{%- for message in messages -%}" + _render(node.nodes, _INNER) + "{%- endfor -%}")
        else:
            for number, (condition, inner) in enumerate(node.branches):
                word = f"{'elif' if number else 'if'} {_expression(condition, names)}" if condition else "else"
                written.append(f"{{%- {word} -%}}{_render(inner, names)}")
            written.append("{%- endif -%}")
    return "".join(written)


def _expression(text: str, names: Mapping[str, str]) -> str:
    return _jinja(_tree(text), names)


def _jinja(tree: _Tree, names: Mapping[str, str]) -> str:
    kind, *parts = tree
    if kind == "text":
        return _quoted(parts[0])
    if kind == "name":
        return str(_named(parts[0], names))
    written = [_jinja(part, names) for part in parts]
    return f"(not {written[0]})" if kind == "not" else f"({_JOINERS[kind].join(written)})"


def _filled(nodes: Sequence[_Node], names: Mapping[str, str], turns: Sequence[Mapping[str, str]]) -> str:
    """The text of the nodes with these values; one that names something else raises _Unknown."""
    written = []
    for node in nodes:
        if node.kind == "text":
            written.append(node.text)
        elif node.kind == "output":
            written.append(_worth(_tree(node.text), names))
        elif node.kind == "range":
            written += [_filled(node.nodes, {"$.System": names[".System"], **turn}, turns) for turn in turns]
        else:
            taken = (inner for condition, inner in node.branches if not condition or _worth(_tree(condition), names))
            written.append(_filled(next(taken, []), names, turns))
    return "".join(written)


def _worth(tree: _Tree, names: Mapping[str, str]) -> str:
    """The value of an expression; "" is false, as it is in templates."""
    kind, *parts = tree
    if kind == "text":
        return str(parts[0])
    if kind == "name":
        return _named(parts[0], names)
    values = [_worth(part, names) for part in parts]
    if kind == "not":
        return "" if values[0] else "true"
    if kind in ("eq", "ne"):
        return "true" if (values[0] == values[1]) == (kind == "eq") else ""
    decides = [value for value in values if bool(value) == (kind == "or")]
    return decides[0] if decides else values[-1]


def _named(token: str, names: Mapping[str, str]) -> str:
    for name in (token, token.removeprefix("$")):
        if name in names:
            return names[name]
    raise _Unknown


def _tree(text: str) -> _Tree:
    """An expression as a tuple: its kind, then its parts."""
    tokens: list[str] = []
    at, text = 0, text.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise _Unknown
        tokens.append(found[1])
        at = found.end()
    tree = _call(tokens, 0)
    if tokens:
        raise _Unknown
    return tree


def _call(tokens: list[str], depth: int) -> _Tree:
    """Takes one expression, which may be a function with its terms, off the front of `tokens`."""
    if depth > MAX_DEPTH or not tokens:
        raise _Unknown
    if tokens[0] == "not":
        tokens.pop(0)
        return ("not", _term(tokens, depth))
    if tokens[0] not in _JOINERS:
        return _term(tokens, depth)
    kind = tokens.pop(0)
    terms = [_term(tokens, depth), _term(tokens, depth)]
    while tokens and tokens[0] != ")" and kind in ("and", "or"):
        terms.append(_term(tokens, depth))
    return (kind, *terms)


def _term(tokens: list[str], depth: int) -> _Tree:
    if not tokens:
        raise _Unknown
    token = tokens.pop(0)
    if token == "(":
        inner = _call(tokens, depth + 1)
        if not tokens or tokens.pop(0) != ")":
            raise _Unknown
        return inner
    if token.startswith('"'):
        text = token[1:-1].replace('\\"', '"').replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\")
        return ("text", text)
    if token[0] not in "$.":
        raise _Unknown
    return ("name", token)


def _quoted(text: str) -> str:
    return "'" + "".join(_ESCAPES.get(letter, letter) for letter in text) + "'"
