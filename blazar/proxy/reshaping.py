"""`Reshaping`: what happens to a child's answer between the child and the dialect, for a request that demands a form.

The text that the engine wrote for a forced tool becomes a call of it, and the sentinel sees the answer before its last
byte goes out.
"""

import secrets
from collections.abc import Callable, Iterator
from typing import Any

from blazar.proxy.assemble import Assembler
from blazar.proxy.exchange import Answer, ToolCall
from blazar.proxy.sentinel import Sentinel

Event = dict[str, Any]


def new_call() -> str:
    """The id of a call that the child did not make itself."""
    return f"call_{secrets.token_hex(12)}"


class Reshaping:
    """Of one exchange; each attempt goes through `events`, or `whole`, anew."""

    def __init__(self, tool: str, sentinel: Sentinel | None, stops: tuple[str, ...],
                 new_id: Callable[[], str] = new_call) -> None:
        self.sentinel = sentinel
        self._tool = tool
        self._stops = stops
        self._new_id = new_id

    def events(self, events: Iterator[Event]) -> Iterator[Event]:
        """A child's chunks as the dialect is to see them. Raises SchemaViolated at their end."""
        if self.sentinel is not None:
            self.sentinel.begin()
        called: set[Any] = set()
        answers: dict[Any, Assembler] = {}
        judged = False
        for event in events:
            for choice in _choices(event):
                index = choice.get("index") or 0
                if self._tool:
                    self._as_call(choice, called, index)
                if self.sentinel is not None:
                    assembler = answers.setdefault(index, Assembler(self._stops))
                    assembler.feed({"choices": [{**choice, "index": 0}]})
            if not judged and any(assembler.stopped for assembler in answers.values()):
                judged = True  # nobody will ask for more
                self._judge(answers)
            yield event
        if not judged:
            self._judge(answers)

    def whole(self, answer: Event) -> Event:
        """A child's whole answer as its client is to see it. Raises SchemaViolated."""
        if self.sentinel is not None:
            self.sentinel.begin()
        for choice in _choices(answer):
            if self._tool:
                self._message_as_call(choice)
            if self.sentinel is not None:
                self.sentinel.judge(_answer(choice))
        return answer

    def _judge(self, answers: dict[Any, Assembler]) -> None:
        if self.sentinel is not None:
            for assembler in answers.values():
                self.sentinel.judge(assembler.finish())

    def _as_call(self, choice: Event, called: set[Any], index: Any) -> None:
        delta = _object(choice.get("delta"))
        words = _text(delta.get("content"))
        if words and not delta.get("tool_calls"):
            del delta["content"]
            function = {"arguments": words} if index in called else {"name": self._tool, "arguments": words}
            call = {"index": 0, "function": function}
            delta["tool_calls"] = [call if index in called else {"id": self._new_id(), "type": "function", **call}]
            called.add(index)
        if choice.get("finish_reason") == "stop" and index in called:
            choice["finish_reason"] = "tool_calls"

    def _message_as_call(self, choice: Event) -> None:
        message = _object(choice.get("message"))
        words = _text(message.get("content"))
        if words and not message.get("tool_calls"):
            message["content"] = None
            message["tool_calls"] = [{"id": self._new_id(), "type": "function",
                                      "function": {"name": self._tool, "arguments": words}}]
            if choice.get("finish_reason") == "stop":
                choice["finish_reason"] = "tool_calls"


def _choices(value: Event) -> list[Event]:
    choices = value.get("choices")
    return [choice for choice in choices if isinstance(choice, dict)] if isinstance(choices, list) else []


def _answer(choice: Event) -> Answer:
    """One choice of a whole chat completion, or completion."""
    message = _object(choice.get("message")) or {"content": choice.get("text")}
    reason = choice.get("finish_reason")
    calls = message.get("tool_calls")
    functions = [call.get("function") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    return Answer(text=_text(message.get("content")), finish_reason=reason if isinstance(reason, str) else "stop",
                  tool_calls=[ToolCall("", _text(function.get("name")), _text(function.get("arguments")))
                              for function in functions if isinstance(function, dict)])


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
