"""`Reshaping`: what happens to a child's answer between the child and the dialect, for a request that demands a form.

The text that the engine wrote for a tool that must be called becomes its call, and the sentinel sees the answer before
its last byte goes out.
"""

import secrets
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from blazar.proxy.assemble import Assembler
from blazar.proxy.exchange import Answer, ToolCall
from blazar.proxy.forced import CallReader
from blazar.proxy.sentinel import Sentinel

Event = dict[str, Any]


def new_call() -> str:
    """The id of a call that the child did not make itself."""
    return f"call_{secrets.token_hex(12)}"


class Reshaping:
    """Of one exchange; each attempt goes through `events`, or `whole`, anew. One of `tools`, if any, must be called."""

    def __init__(self, tools: Sequence[str], sentinel: Sentinel | None, stops: tuple[str, ...],
                 new_id: Callable[[], str] = new_call) -> None:
        self.sentinel = sentinel
        self.calls = bool(tools)
        """The answer is a call, and no text."""
        self._tools = tools
        self._stops = stops
        self._new_id = new_id

    def events(self, events: Iterator[Event]) -> Iterator[Event]:
        """A child's chunks as the dialect is to see them. Raises SchemaViolated at their end."""
        if self.sentinel is not None:
            self.sentinel.begin()
        calls: dict[Any, _Call] = {}
        answers: dict[Any, Assembler] = {}
        judged = False
        for event in events:
            for choice in _choices(event):
                index = choice.get("index") or 0
                if self._tools:
                    self._as_call(choice, calls.setdefault(index, _Call(self._tools, self._new_id)))
                if self.sentinel is not None:
                    assembler = answers.setdefault(index, Assembler(self._stops))
                    assembler.feed({"choices": [{**choice, "index": 0}]})
            if not judged and any(assembler.stopped for assembler in answers.values()):
                judged = True  # nobody will ask for more
                self._judge(answers)
            yield event
        held = [(index, call.rest()) for index, call in calls.items()]  # where no reason for the end was told
        for index, words in held:
            if words:
                yield {"choices": [{"index": index, "delta": {"content": words}, "finish_reason": None}]}
        if not judged:
            self._judge(answers)

    def whole(self, answer: Event) -> Event:
        """A child's whole answer as its client is to see it. Raises SchemaViolated."""
        if self.sentinel is not None:
            self.sentinel.begin()
        for choice in _choices(answer):
            if self._tools:
                self._message_as_call(choice)
            if self.sentinel is not None:
                self.sentinel.judge(_answer(choice))
        return answer

    def _judge(self, answers: dict[Any, Assembler]) -> None:
        if self.sentinel is not None:
            for assembler in answers.values():
                self.sentinel.judge(assembler.finish())

    @staticmethod
    def _as_call(choice: Event, call: "_Call") -> None:
        delta = choice["delta"] = _object(choice.get("delta"))
        words = _text(delta.pop("content", None))
        calls, words = call.feed(words) if words and not call.passed(delta) else ([], words)
        if choice.get("finish_reason"):
            words += call.rest()
            choice["finish_reason"] = call.reason(choice["finish_reason"])
        if calls:
            delta["tool_calls"] = calls
        if words:
            delta["content"] = words

    def _message_as_call(self, choice: Event) -> None:
        message, call = _object(choice.get("message")), _Call(self._tools, self._new_id)
        words = _text(message.get("content"))
        if words and not message.get("tool_calls"):
            calls, words = call.feed(words)
            message["content"] = (words + call.rest()) or None
            if calls:
                message["tool_calls"] = [{name: value for name, value in calls[0].items() if name != "index"}]
                choice["finish_reason"] = call.reason(choice.get("finish_reason"))


class _Call:
    """The call that the text of one choice becomes, as chunks tell it."""

    def __init__(self, tools: Sequence[str], new_id: Callable[[], str]) -> None:
        self._reader = CallReader(tools)
        self._new_id = new_id
        self._begun = self._own = False

    def feed(self, words: str) -> tuple[list[Event], str]:
        """What more of the text makes of `tool_calls`, and of `content`."""
        more, words = self._reader.feed(words)
        if not more:
            return [], words
        call: Event = {"index": 0, "function": {"arguments": more}}
        if not self._begun:
            self._begun = True
            call = {"index": 0, "id": self._new_id(), "type": "function",
                    "function": {"name": self._reader.name, "arguments": more}}
        return [call], words

    def passed(self, delta: Event) -> bool:
        """Whether the child makes calls itself, which stay as they are."""
        self._own = self._own or bool(delta.get("tool_calls"))
        return self._own

    def rest(self) -> str:
        """Words that were held back, at the end."""
        return self._reader.rest()

    def reason(self, told: Any) -> Any:
        """Why the answer ended, given the child's reason."""
        return "tool_calls" if self._begun and told == "stop" else told


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
