"""`Assembler`: a whole `Answer` from the child's stream of completion chunks."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from blazar.proxy.exchange import Answer, Part, ToolCall
from blazar.proxy.json import BadJson, loads
from blazar.proxy.meter import take_counts
from blazar.proxy.stops import StopCutter


@dataclass
class Piece:
    """What one chunk added to the answer; `calls` says that it added to the tool calls, `logprobs` are OpenAI's."""

    text: str = ""
    thinking: str = ""
    calls: bool = False
    logprobs: list[dict[str, Any]] = field(default_factory=list)


class Assembler:
    """Adds up `chat.completion.chunk` or `text_completion` chunks, or llama.cpp's own; `answer` is complete after
    `finish`.

    Only the first choice counts. A call that the child left without an id has the id ''. Text ends at the first of
    `stops`, whether or not the child ends there: then `stopped` is true, and nothing more is wanted of the child.
    Until `finish` the words of a part are in pieces, the arguments of a call among them.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self.answer = Answer()
        self._cutter = StopCutter(stops)
        self._count_of_pieces = 0
        self.calls: list[Part] = []
        """The parts that are calls."""
        self._positions: dict[Any, int] = {}
        self._reason = "stop"

    def feed(self, chunk: dict[str, Any]) -> Piece:
        """Add one chunk; the result is what it added."""
        take_counts(self.answer.usage, chunk)
        choice = _first_choice(chunk)
        if choice is None:
            return Piece()
        delta = _object(choice.get("delta"))
        words = _text(delta.get("content")) or _text(choice.get("text"))
        calls = delta.get("tool_calls")
        piece = Piece(text=self._cutter.feed(words),
                      thinking=_text(delta.get("reasoning_content")) or _text(delta.get("reasoning")),
                      logprobs=_logprobs(choice))
        self._count_of_pieces += bool(words or piece.thinking)
        if calls:
            piece.text += self._cutter.rest()
        self.answer.logprobs += piece.logprobs
        if piece.thinking:
            self._say("thinking", piece.thinking)
        if piece.text:
            self._say("text", piece.text)
        for call in calls if isinstance(calls, list) else []:
            if isinstance(call, dict):
                self._add_call(call)
                piece.calls = True
        self._reason = _text(choice.get("finish_reason")) or self._reason
        self.answer.stop_text = _stop_text(choice) or _stop_text(chunk) or self.answer.stop_text
        if "__verbose" in chunk:
            self.answer.stop_text = _stop_text(_object(chunk["__verbose"])) or self.answer.stop_text
        return piece

    @property
    def stopped(self) -> bool:
        """A stop sequence ended the text."""
        return self._cutter.found is not None

    def rest(self) -> str:
        """The last of the text, which was held back because a stop sequence seemed to begin there."""
        rest = self._cutter.rest()
        if rest:
            self._say("text", rest)
        return rest

    def finish(self) -> Answer:
        """The answer, after the child's last chunk, or once it has `stopped`."""
        answer = self.answer
        self.rest()
        if self.stopped:
            answer.stop_text, self._reason = self._cutter.found, "stop"
            # The child's own count comes at its end, which is not waited for.
            answer.usage.completion_tokens = answer.usage.completion_tokens or self._count_of_pieces
        answer.text, answer.thinking = self._said("text"), self._said("thinking")
        for part, call in zip(self.calls, answer.tool_calls, strict=True):
            call.arguments = "".join(part.words)
        answer.finish_reason = self._reason
        if answer.tool_calls:
            cut_off = answer.finish_reason == "length" and (answer.parts[-1].call is None
                                                            or arguments_of(answer.tool_calls[-1]) is None)
            answer.finish_reason = "length" if cut_off else "tool_calls"
        elif answer.finish_reason == "tool_calls":
            answer.finish_reason = "stop"
        return answer

    def _say(self, kind: str, words: str) -> None:
        parts = self.answer.parts
        if not parts or parts[-1].kind != kind:
            parts.append(Part(kind))
        parts[-1].words.append(words)

    def _said(self, kind: str) -> str:
        return "".join("".join(part.words) for part in self.answer.parts if part.kind == kind)

    def _add_call(self, delta: dict[str, Any]) -> None:
        function = _object(delta.get("function"))
        position = self._position(delta)
        call, more = self.answer.tool_calls[position], _text(function.get("arguments"))
        call.name = call.name or _text(function.get("name"))
        if more:
            self.calls[position].words.append(more)

    def _position(self, delta: dict[str, Any]) -> int:
        """Where the call of this delta stands: by its index, else its id, else it continues the last one."""
        calls, given = self.answer.tool_calls, _text(delta.get("id"))
        index = delta.get("index")
        key = index if isinstance(index, int) else given
        if key == "" and calls:
            return len(calls) - 1
        if key not in self._positions:
            self._positions[key] = len(calls)
            calls.append(ToolCall(given, "", ""))
            self.calls.append(Part("call", call=calls[-1]))
            self.answer.parts.append(self.calls[-1])
        return self._positions[key]


def arguments_of(call: ToolCall) -> dict[str, Any] | None:
    """The arguments of a call as an object; None when the model did not write one. No arguments are `{}`."""
    try:
        value = loads(call.arguments) if call.arguments.strip() else {}
    except BadJson:
        return None
    return value if isinstance(value, dict) else None


def _first_choice(chunk: dict[str, Any]) -> dict[str, Any] | None:
    choices = chunk.get("choices")
    for choice in choices if isinstance(choices, list) else []:
        if isinstance(choice, dict) and not choice.get("index"):
            return choice
    return _own_choice(chunk) if choices is None else None


def _own_choice(chunk: dict[str, Any]) -> dict[str, Any] | None:
    """The same of a chunk in llama.cpp's own form, with which it answers at /infill."""
    if not isinstance(chunk.get("content"), str):
        return None
    ended = "length" if chunk.get("stop_type") == "limit" else "stop"
    return {"text": chunk["content"], "finish_reason": ended if chunk.get("stop") else None,
            "logprobs": {"content": chunk.get("completion_probabilities")}}


def _logprobs(choice: dict[str, Any]) -> list[dict[str, Any]]:
    tokens = _object(choice.get("logprobs")).get("content")
    return [token for token in tokens if isinstance(token, dict)] if isinstance(tokens, list) else []


def _stop_text(place: dict[str, Any]) -> str | None:
    """The stop sequence that ended the answer, by the names that vLLM, SGLang and llama.cpp give it."""
    for name in ("stop_reason", "matched_stop", "stopping_word"):
        if _text(place.get(name)):
            return place[name]
    return None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


