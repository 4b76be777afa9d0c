"""Ollama's tool calls under `decode_policy = "strict"`: the grammar that confines the model, and the way back.

The grammar is GBNF, llama.cpp's. What it lets through are envelopes, `<tool_call>{"name": ..., "arguments":
{...}}</tool_call>`, with the name of a tool that the request offers and arguments that are a JSON object. When the
conversation ends with a tool's result the model may answer in words too, else it could never come to an end.
"""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from blazar.proxy.json import BadJson, dumps, loads

OPEN = "<tool_call>"
_ENVELOPE = re.compile(r'\s*<tool_call>([^"<]*(?:(?:"[^"\\]*(?:\\.[^"\\]*)*"|<(?!/tool_call>))[^"<]*)*)</tool_call>',
                       re.DOTALL)
"""One of them; the mark at its end may also stand in a string of the arguments, where it ends nothing."""
REASONS = {"stop": "tool_calls"}
"""Why an answer ended, once it has calls."""

RULES = r'''calls ::= call ("\n" call)*
call ::= "<tool_call>" ws "{" ws "\"name\"" ws ":" ws name ws "," ws arguments ws "}" ws "</tool_call>"
arguments ::= "\"arguments\"" ws ":" ws object
object ::= "{" ws (pair ws ("," ws pair ws)*)? "}"
pair ::= string ws ":" ws value
array ::= "[" ws (value ws ("," ws value ws)*)? "]"
value ::= object | array | string | number | "true" | "false" | "null"
string ::= "\"" char* "\""
char ::= [^"\\\x00-\x1F\x7F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4})
number ::= "-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?
ws ::= | " " | "\n" [ \t]{0,16}
words ::= ([^<] | "<"+ ([^<t] | "t" [^<o]))+
'''


def grammar(names: Iterable[str], may_speak: bool) -> str:
    """The grammar for a request that offers these tools."""
    quoted = " | ".join(_literal(dumps(name).decode()) for name in dict.fromkeys(names))
    return f"root ::= calls{' | words' if may_speak else ''}\nname ::= {quoted}\n{RULES}"


def _literal(text: str) -> str:
    """`text` as GBNF writes it."""
    return '"' + "".join(char if char.isascii() and (char.isalnum() or char in "_-") else f"\\U{ord(char):08X}"
                         for char in text) + '"'


class Envelopes:
    """Turns the text of such answers into calls; a Reshaping, as dispatch sees it."""

    sentinel = None
    calls = True

    def events(self, events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """The child's chunks; envelopes are kept back until the end, and come before the last of it."""
        held: list[str] = []
        beginning = ""
        """Of what is held, as much as tells whether it is an envelope."""
        calling = False
        for event in events:
            for choice in event.get("choices") or ():
                delta = choice["delta"] = choice.get("delta") or {}
                words = delta.pop("content", None) or ""
                held.append(words)
                if not calling:
                    beginning = (beginning + words).lstrip()
                    calling = beginning.startswith(OPEN)
                if choice.get("finish_reason"):
                    calls, rest = calls_in("".join(held))
                    held = [rest]
                    if calls:
                        yield {"choices": [{"index": 0, "delta": {"tool_calls": calls}, "finish_reason": None}]}
                        choice["finish_reason"] = REASONS.get(choice["finish_reason"], choice["finish_reason"])
                elif calling or OPEN.startswith(beginning):
                    continue
                delta["content"] = "".join(held)
                held, beginning = [], ""
            yield event


def calls_in(text: str) -> tuple[list[dict[str, Any]], str]:
    """The calls in `text`, as a chunk has them, and what is left of it: words, or an envelope that is not whole."""
    calls: list[dict[str, Any]] = []
    end = 0
    while (found := _ENVELOPE.match(text, end)) is not None:
        call = _call(found[1])
        if call is None:
            break
        calls.append({"index": len(calls), "type": "function", "function": {
            "name": call["name"], "arguments": dumps(call["arguments"]).decode()}})
        end = found.end()
    rest = text[end:]
    return calls, rest if rest.strip() else ""


def _call(text: str) -> dict[str, Any] | None:
    try:
        value = loads(text)
    except BadJson:
        return None
    whole = isinstance(value, dict) and isinstance(value.get("name"), str) and isinstance(value.get("arguments"), dict)
    return value if whole else None
