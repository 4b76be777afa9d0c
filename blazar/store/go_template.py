"""Ollama's Go templates as Jinja, as far as they are simple: fields, conditions, and one loop over the messages.

Two forms are known. One uses `.System`, `.Prompt` and `.Response` and stands for one exchange; the other loops over
`.Messages` with `.Role` and `.Content`. Text is written as Jinja strings, so that no rule of Jinja on white space can
touch it. Anything else (variables, functions, tools) is not translated.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

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
    tokens: list[str] = []
    at, text = 0, text.strip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise _Unknown
        tokens.append(found[1])
        at = found.end()
    written = _call(tokens, names, 0)
    if tokens:
        raise _Unknown
    return written


def _call(tokens: list[str], names: Mapping[str, str], depth: int) -> str:
    """Takes one expression, which may be a function with its terms, off the front of `tokens`."""
    if depth > MAX_DEPTH or not tokens:
        raise _Unknown
    if tokens[0] == "not":
        tokens.pop(0)
        return f"(not {_term(tokens, names, depth)})"
    if tokens[0] not in _JOINERS:
        return _term(tokens, names, depth)
    joiner = _JOINERS[tokens.pop(0)]
    terms = [_term(tokens, names, depth), _term(tokens, names, depth)]
    while tokens and tokens[0] != ")" and joiner in (" and ", " or "):
        terms.append(_term(tokens, names, depth))
    return f"({joiner.join(terms)})"


def _term(tokens: list[str], names: Mapping[str, str], depth: int) -> str:
    if not tokens:
        raise _Unknown
    token = tokens.pop(0)
    if token == "(":
        inner = _call(tokens, names, depth + 1)
        if not tokens or tokens.pop(0) != ")":
            raise _Unknown
        return inner
    if token.startswith('"'):
        return _quoted(token[1:-1].replace('\\"', '"').replace("\\n", "\n").replace("\\t", "\t").replace("\\\\", "\\"))
    if token in names or token.removeprefix("$") in names:
        return names.get(token) or names[token.removeprefix("$")]
    raise _Unknown


def _quoted(text: str) -> str:
    return "'" + "".join(_ESCAPES.get(letter, letter) for letter in text) + "'"
