"""`Whole`: the buffered answer that the chunks of an OpenAI stream are the pieces of, field by field as an engine puts
it together."""

from typing import Any

OBJECTS = {"chat.completion.chunk": "chat.completion"}
"""What a whole answer is called whose chunks are called so; a text completion's have its own name."""
ONCE = frozenset({"role", "id", "type", "name"})
"""Texts of a delta that come in one piece; all others are appended."""


class Whole:
    """Of one stream; `feed` takes its chunks."""

    def __init__(self) -> None:
        self._head: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}
        self._calls: dict[Any, dict[str, Any]] = {}
        """By the numbers of choice and call."""

    def feed(self, chunk: dict[str, Any]) -> None:
        self._head.update({name: value for name, value in chunk.items() if name != "choices" and value is not None})
        listed = chunk.get("choices")
        for piece in listed if isinstance(listed, list) else ():
            if isinstance(piece, dict):
                index = piece.get("index")
                self._add(index if isinstance(index, int) else 0, piece)

    def value(self) -> dict[str, Any]:
        """The answer so far."""
        name = self._head.get("object")
        choices = [self._choices[index] for index in sorted(self._choices)]
        return {"choices": choices, **self._head, "object": OBJECTS.get(str(name), name)}

    def _add(self, index: int, piece: dict[str, Any]) -> None:
        choice = self._choices.setdefault(index, {})
        for name, value in piece.items():
            if name == "delta":
                message = choice.setdefault("message", {"role": "assistant", "content": ""})
                self._append(index, message, value if isinstance(value, dict) else {})
            elif name == "logprobs" and choice.get(name):
                _append_logprobs(choice[name], value)
            elif name == "text":
                choice[name] = choice.get(name, "") + (value or "")
            elif value is not None or name not in choice:
                choice[name] = value

    def _append(self, index: int, message: dict[str, Any], delta: dict[str, Any]) -> None:
        for name, value in delta.items():
            if name == "tool_calls" and isinstance(value, list):
                calls = message.setdefault(name, [])
                for piece in filter(lambda piece: isinstance(piece, dict), value):
                    number = piece.get("index", len(calls))  # one without a number is a call of its own
                    if (index, number) not in self._calls:
                        self._calls[index, number] = {}
                        calls.append(self._calls[index, number])
                    _append_call(self._calls[index, number], piece)
            elif isinstance(value, str) and name not in ONCE:
                message[name] = (message.get(name) or "") + value
            elif value is not None:
                message[name] = value


def _append_call(call: dict[str, Any], piece: dict[str, Any]) -> None:
    for name, value in piece.items():
        if name == "function" and isinstance(value, dict):
            function = call.setdefault(name, {})
            for part, text in value.items():
                function[part] = text if part in ONCE or not isinstance(text, str) else function.get(part, "") + text
        elif name != "index" and value is not None:
            call[name] = value


def _append_logprobs(so_far: dict[str, Any], more: Any) -> None:
    for name, values in more.items() if isinstance(more, dict) else ():
        if isinstance(values, list) and isinstance(so_far.get(name), list):
            so_far[name] = so_far[name] + values
