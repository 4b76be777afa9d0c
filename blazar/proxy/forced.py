"""Tools of which one must be called: the form that the engine is held to for it, and the call out of what it writes.

A call of the only tool is its arguments. Where there are several the model chooses: `{"name": ..., "arguments": ...}`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from blazar.proxy.json import BadJson, loads
from blazar.proxy.schemas import LITERAL

Schema = dict[str, Any]

NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})
"""Keywords whose keys are names, and no keywords."""
LONGEST_HEAD = 1024
"""Characters in which the arguments of a tool that the model chooses have to begin."""
_HEAD = re.compile(r'\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)*")\s*,\s*"arguments"\s*:\s*(?=\S)')


def form_of(tools: Mapping[str, Schema]) -> Schema:
    """The schema of a call, for tools by name, each with the schema of its arguments."""
    if len(tools) == 1:
        return next(iter(tools.values()))
    places = {name: f"tool{number}" for number, name in enumerate(tools)}
    return {"anyOf": [{"type": "object", "properties": {"name": {"const": name},
                                                        "arguments": {"$ref": f"#/$defs/{places[name]}"}},
                       "required": ["name", "arguments"], "additionalProperties": False} for name in tools],
            "$defs": {places[name]: _moved(schema, f"#/$defs/{places[name]}") for name, schema in tools.items()}}


def _moved(node: Any, place: str, names: bool = False) -> Any:
    """A schema that is a part of another now, with its references following it; `names` says what its keys are."""
    if isinstance(node, list):
        return [_moved(item, place) for item in node]
    if not isinstance(node, dict):
        return node
    moved: Schema = {}
    for key, value in node.items():
        if key == "$ref" and isinstance(value, str) and not names:
            moved[key] = place + value.removeprefix("#")
        else:
            literal = key in LITERAL and not names
            moved[key] = value if literal else _moved(value, place, names=key in NAMED and not names)
    return moved


class CallReader:
    """Makes a call of what a model writes by `form_of`, piece by piece. `name` is that of the tool, once it is known.

    Blanks before the call are nothing. What is no such call stays words.
    """

    def __init__(self, tools: Sequence[str]) -> None:
        self.name = tools[0] if len(tools) == 1 else ""
        self._chosen = not self.name
        """The model says which tool it calls."""
        self._held = ""
        """What was written before the arguments, or words, began."""
        self._begun = self._ended = False
        self._depth = 0
        self._quoted = self._escaped = False

    def feed(self, piece: str) -> tuple[str, str]:
        """(more of the arguments, more words), either of them ''."""
        if not self._begun:
            piece = self._begin(piece)
        if not self._begun or not self.name:
            return "", piece
        return self._arguments(piece) if self._chosen else piece, ""

    def rest(self) -> str:
        """The words that were held back, once there are no more pieces."""
        held, self._held = self._held, ""
        return held

    def _begin(self, piece: str) -> str:
        """What of the text so far is arguments, or words; '' while that is open."""
        self._held = (self._held + piece).lstrip()
        head = _HEAD.match(self._held) if self._chosen else None
        if head is not None:
            self.name = _name(head[1])
            self._held = self._held[head.end():] if self.name else self._held
        plainly_words = self._held[:1] not in ("", "{") or len(self._held) > LONGEST_HEAD
        self._begun = bool(self._held) and (bool(self.name) or plainly_words)
        return self.rest() if self._begun else ""

    def _arguments(self, piece: str) -> str:
        """`piece`, up to the end of the object that the arguments are."""
        if self._ended:
            return ""
        for place, char in enumerate(piece, 1):
            if self._quoted:
                self._quoted = self._escaped or char != '"'
                self._escaped = char == "\\" and not self._escaped
            elif char == '"':
                self._quoted = True
            elif char in "{[":
                self._depth += 1
            elif char in "}]":
                self._depth -= 1
                if self._depth == 0:
                    self._ended = True
                    return piece[:place]
        return piece


def _name(text: str) -> str:
    """A name as JSON has it; '' for what is none."""
    try:
        return str(loads(text))
    except BadJson:
        return ""
