"""`Whole`: the buffered answer that the chunks of an OpenAI stream are the pieces of, field by field as an engine puts
it together."""

from typing import Any

OBJECTS = {"chat.completion.chunk": "chat.completion"}
"""What a whole answer is called whose chunks are called so; a text completion's have its own name."""
ONCE = frozenset({"role", "id", "type", "name"})
"""Texts of a delta that come in one piece; all others are appended."""


class _Text(list[str]):
    """The pieces of a text that is still being told, in the place of the text."""


class Whole:
    """Of one stream; `feed` takes its chunks."""

    def __init__(self) -> None:
        self._head: dict[str, Any] = {}
        self._choices: dict[int, dict[str, Any]] = {}
        self._calls: dict[Any, dict[str, Any]] = {}
        """By the numbers of choice and call."""
        self._told: list[tuple[dict[str, Any], str]] = []
        """Where a text is being told: an object, and its field."""

    def feed(self, chunk: dict[str, Any]) -> None:
        self._head.update({name: value for name, value in chunk.items() if name != "choices" and value is not None})
        listed = chunk.get("choices")
        for piece in listed if isinstance(listed, list) else ():
            if isinstance(piece, dict):
                index = piece.get("index")
                self._add(index if isinstance(index, int) else 0, piece)

    def value(self) -> dict[str, Any]:
        """The answer so far."""
        for holder, field in self._told:
            if isinstance(holder[field], _Text):
                holder[field] = "".join(holder[field])
        self._told.clear()
        name = self._head.get("object")
        choices = [self._choices[index] for index in sorted(self._choices)]
        return {"choices": choices, **self._head, "object": OBJECTS.get(str(name), name)}

    def _add(self, index: int, piece: dict[str, Any]) -> None:
        choice = self._choices.setdefault(index, {})
        for name, value in piece.items():
            if name == "delta":
                message = choice.setdefault("message", {"role": "assistant", "content": ""})
                self._append(index, message, value if isinstance(value, dict) else {})
            elif name == "logprobs" and isinstance(value, dict):
                _append_logprobs(choice, value)
            elif name == "text":
                self._tell(choice, name, value if isinstance(value, str) else "")
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
                    self._append_call(self._calls[index, number], piece)
            elif isinstance(value, str) and name not in ONCE:
                self._tell(message, name, value)
            elif value is not None:
                message[name] = value

    def _append_call(self, call: dict[str, Any], piece: dict[str, Any]) -> None:
        for name, value in piece.items():
            if name == "function" and isinstance(value, dict):
                function = call.setdefault(name, {})
                for part, text in value.items():
                    if isinstance(text, str) and part not in ONCE:
                        self._tell(function, part, text)
                    else:
                        function[part] = text
            elif name != "index" and value is not None:
                call[name] = value

    def _tell(self, holder: dict[str, Any], name: str, more: str) -> None:
        """More of a text."""
        so_far = holder.get(name)
        if not isinstance(so_far, _Text):
            so_far = holder[name] = _Text([so_far] if isinstance(so_far, str) else [])
            self._told.append((holder, name))
        so_far.append(more)


def _append_logprobs(choice: dict[str, Any], more: dict[str, Any]) -> None:
    so_far = choice.get("logprobs")
    if not isinstance(so_far, dict):  # lists of our own, which grow
        choice["logprobs"] = {name: [*value] if isinstance(value, list) else value for name, value in more.items()}
        return
    for name, values in more.items():
        if isinstance(values, list) and isinstance(so_far.get(name), list):
            so_far[name] += values
