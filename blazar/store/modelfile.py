'''Modelfiles: text that says what a model is made of.

    modelfile   = *( comment / instruction )
    comment     = "#" to the end of the line
    instruction = word argument          FROM PARAMETER TEMPLATE SYSTEM ADAPTER LICENSE MESSAGE, in any case
    argument    = the rest of the line, or a text in quotes or in three quotes, which may go over several lines

PARAMETER has a name before its value, MESSAGE a role before its text.
'''

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from blazar.errors import ModelfileRefused
from blazar.store.parameters import read_parameters
from blazar.store.preset import Preset

MAX_MODELFILE = 4 << 20
"""Characters of the longest Modelfile."""
MAX_PARTS = 1000
"""Instructions of one Modelfile."""
WORDS = ("FROM", "PARAMETER", "TEMPLATE", "SYSTEM", "ADAPTER", "LICENSE", "MESSAGE")
ROLES = ("system", "user", "assistant")
QUOTES = '"""'

_WORD = re.compile(r"[^\s]+")


@dataclass
class Modelfile:
    """What one asks for. Values of `sources` and `adapters` are names or paths as written."""

    sources: list[str] = field(default_factory=list)
    adapters: list[str] = field(default_factory=list)
    preset: Preset = field(default_factory=Preset)
    license: str = ""
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Instruction:
    word: str
    head: str
    """The name of a PARAMETER, the role of a MESSAGE."""
    text: str
    line: int
    column: int


def parse(text: str, file: str = "Modelfile") -> Modelfile:
    """Read a Modelfile. Raises ModelfileRefused with line and column."""
    if len(text) > MAX_MODELFILE:
        raise ModelfileRefused(f"{file} has {len(text)} characters, {MAX_MODELFILE} are allowed")
    found = Modelfile()
    given: dict[str, Any] = {}
    texts: dict[str, str] = {}
    messages: list[dict[str, str]] = []
    licenses = []
    for each in _Reader(text.lstrip("\ufeff"), file).instructions():
        if each.word == "FROM":
            found.sources.append(each.text)
        elif each.word == "ADAPTER":
            found.adapters.append(each.text)
        elif each.word == "LICENSE":
            licenses.append(each.text)
        elif each.word == "MESSAGE":
            messages.append({"role": each.head, "content": each.text})
        elif each.word == "PARAMETER" and each.head == "stop":
            given.setdefault("stop", []).append(each.text)
        elif each.word == "PARAMETER":
            given[each.head] = each.text
        else:
            texts[each.word.lower()] = each.text
    if not found.sources:
        raise ModelfileRefused(f"{file} has no FROM line; begin it with `FROM name-of-a-model` or `FROM ./file.gguf`")
    parameters, found.warnings = read_parameters(given)
    found.preset = Preset(texts.get("system", ""), tuple(messages), parameters, texts.get("template", ""))
    found.license = "\n".join(licenses)
    return found


class _Reader:
    """Walks over the lines; every refusal says where it is."""

    def __init__(self, text: str, file: str) -> None:
        self._lines = text.replace("\r\n", "\n").split("\n")
        self._file = file
        self._at = 0

    def instructions(self) -> list[_Instruction]:
        found: list[_Instruction] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.strip() and not line.lstrip().startswith("#"):
                found.append(self._instruction(line))
                if len(found) > MAX_PARTS:
                    self._refuse(1, f"this is more than {MAX_PARTS} instructions", "leave some out")
            self._at += 1
        return found

    def _instruction(self, line: str) -> _Instruction:
        number, first = self._at + 1, _WORD.search(line)
        assert first is not None, "the line is not blank"
        word = first[0].upper()
        if word not in WORDS:
            self._refuse(first.start() + 1, f"{first[0][:40]!r} is no instruction",
                         f"begin the line with {', '.join(WORDS[:-1])} or {WORDS[-1]}, put texts of several lines "
                         f"between {QUOTES} and {QUOTES}, or make it a comment with #")
        rest, head, column = first.end(), "", first.start() + 1
        if word in ("PARAMETER", "MESSAGE"):
            named = _WORD.search(line, rest)
            if named is None:
                self._refuse(len(line) + 1, f"{word} stands alone", self._example(word))
            head, rest = named[0].lower(), named.end()
            if word == "MESSAGE" and head not in ROLES:
                self._refuse(named.start() + 1, f"{named[0][:40]!r} is no role", "write system, user or assistant")
            column = named.start() + 1
        begin = rest + len(line[rest:]) - len(line[rest:].lstrip())
        text = self._argument(line, begin)
        if not text and word in ("FROM", "ADAPTER", "PARAMETER"):
            self._refuse(begin + 1, f"after {word} {head}".rstrip() + " a value is missing", self._example(word))
        if word == "PARAMETER":
            self._check_parameter(head, text, number, column)
        return _Instruction(word, head, text, number, column)

    def _argument(self, line: str, begin: int) -> str:
        if line.startswith(QUOTES, begin):
            return self._quoted(begin, QUOTES)
        if line.startswith('"', begin):
            return self._quoted(begin, '"')
        return line[begin:].strip()

    def _quoted(self, begin: int, quote: str) -> str:
        """The text between two quotes; the second stands at the end of a line."""
        first = self._at
        start = begin + len(quote)
        parts: list[str] = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            end = line.find(quote, start) if quote == QUOTES else len(line.rstrip()) - 1
            closes = end >= start and line.startswith(quote, end)
            if closes:
                if line[end + len(quote):].strip():
                    self._refuse(end + len(quote) + 1, f"after the closing {quote} stands more text",
                                 "begin a new line there")
                return "\n".join([*parts, line[start:end]])
            parts.append(line[start:])
            start = 0
            self._at += 1
        self._at = first
        self._refuse(begin + 1, f"the text that begins here has no closing {quote}", f"put {quote} at its end")

    def _check_parameter(self, name: str, text: str, line: int, column: int) -> None:
        try:
            read_parameters({name: text})
        except ModelfileRefused as refused:
            raise ModelfileRefused(f"{self._file}, line {line}, column {column}: {refused.message}") from None

    def _example(self, word: str) -> str:
        return {"PARAMETER": "write it like `PARAMETER temperature 0.7`", "FROM": "write it like `FROM smollm2-135m`",
                "MESSAGE": "write it like `MESSAGE user Hello`"}.get(word, f"write it like `{word} ./file.gguf`")

    def _refuse(self, column: int, problem: str, remedy: str) -> NoReturn:
        raise ModelfileRefused(f"{self._file}, line {self._at + 1}, column {column}: {problem}; {remedy}")


def render(name: str, preset: Preset, license: str | None) -> str:
    """A Modelfile that makes the model `name` once more, for people to begin with."""
    lines = ["# Made by `blazar show`. Change it, then `blazar create NEW-NAME -f FILE` makes a model of it.",
             f"FROM {name}"]
    texts = {"TEMPLATE": preset.template, "SYSTEM": preset.system}
    lines += [_line(word, text) for word, text in texts.items() if text]
    for option, given in preset.parameters.items():
        values = given if isinstance(given, list) else [given]
        lines += [_line(f"PARAMETER {option}", value) if isinstance(value, str) else f"PARAMETER {option} {value}"
                  for value in values]
    lines += [_line(f"MESSAGE {message['role']}", message["content"]) for message in preset.messages]
    if license:
        lines.append(_line("LICENSE", license))
    return "\n".join(lines) + "\n"


def _line(word: str, text: str) -> str:
    if text.endswith('"') and not text.startswith('"') and '"\n' not in re.sub(r"[^\S\n]+\n", "\n", text):
        return f'{word} "{text}"'  # only a quote at the end of a line ends it
    if QUOTES in text or text.endswith('"'):
        return f"# {word} has quotes in places where a Modelfile cannot say them; it comes along with FROM"
    return f"{word} {QUOTES}{text}{QUOTES}"


def read_messages(given: Sequence[Mapping[str, Any]]) -> tuple[dict[str, str], ...]:
    """Turns given as JSON. Raises ModelfileRefused."""
    found = []
    for position, message in enumerate(given):
        role, content = message.get("role"), message.get("content")
        more = [key for key, value in message.items() if key not in ("role", "content") and value]
        if role not in ROLES or not isinstance(content, str) or more:
            raise ModelfileRefused(f"messages[{position}] must have a role (system, user or assistant), a content that "
                                   f"is a text, and nothing else")
        found.append({"role": role, "content": content})
    return tuple(found)
