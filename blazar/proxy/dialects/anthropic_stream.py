"""The events of an Anthropic stream, in their one right order, from a child's chunks."""

from collections.abc import Callable
from typing import Any

from blazar.proxy.assemble import Assembler
from blazar.proxy.dialects.anthropic_render import (
    Signature,
    error_envelope,
    message_head,
    stopped,
    tool_use,
    usage_of,
)
from blazar.proxy.dialects.anthropic_request import hides_thoughts
from blazar.proxy.exchange import Exchange, Usage
from blazar.proxy.json import dumps

EMPTY_BLOCKS = {"thinking": {"type": "thinking", "thinking": "", "signature": ""},
                "text": {"type": "text", "text": ""}}


class AnthropicTranslator:
    """One message as events: its start, blocks one after the other, its delta, its stop.

    Blocks never overlap. The first tool call stays open until the end, since its pieces may come between those of
    others; other calls, and text that follows a call, wait for it.
    """

    def __init__(self, exchange: Exchange, assembler: Assembler, new_id: Callable[[str], str]) -> None:
        self._exchange = exchange
        self._assembler = assembler
        self._new_id = new_id
        self._started = False
        self._index = -1
        self._open: str | None = None
        """The kind of the open block."""
        self._sent = 0
        """Pieces sent of the first call's arguments."""
        self._hidden = hides_thoughts(exchange.payload)
        self._signature = Signature()
        """Of the open block of thinking."""
        self._late: list[tuple[str, str]] = []
        """Text and thinking that came after a tool call: (kind, words)."""

    @property
    def usage(self) -> Usage:
        return self._assembler.answer.usage

    @property
    def stopped(self) -> bool:
        return self._assembler.stopped

    def feed(self, event: dict[str, Any]) -> bytes:
        piece = self._assembler.feed(event)
        events = self._start()
        events += self._say("thinking", piece.thinking)
        events += self._say("text", piece.text)
        if piece.calls:
            events += self._advance_first_call()
        return b"".join(events)

    def finish(self) -> bytes:
        events = self._start()
        events += self._say("text", self._assembler.rest())
        answer = self._assembler.finish()
        if answer.tool_calls:
            events += self._advance_first_call(at_end=True)
        for call in answer.tool_calls[1:]:
            events += self._begin("tool_use", tool_use(call, {}, self._new_id))
            events += self._arguments(call.arguments)
        for kind, words in self._late:
            events += self._words(kind, words)
        events += self._end_block()
        reason, stop_text = stopped(self._exchange, answer)
        events.append(_event("message_delta", delta={"stop_reason": reason, "stop_sequence": stop_text},
                             usage=usage_of(answer.usage)))
        events.append(_event("message_stop"))
        return b"".join(events)

    def fail(self, error: Exception) -> bytes:
        return error_event(error)

    def _start(self) -> list[bytes]:
        if self._started:
            return []
        self._started = True
        head = message_head(self._exchange, self._new_id("msg"))
        return [_event("message_start", message={**head, "content": [], "stop_reason": None, "stop_sequence": None,
                                                 "usage": usage_of(self._assembler.answer.usage)})]

    def _say(self, kind: str, words: str) -> list[bytes]:
        if not words:
            return []
        if self._open == "tool_use":
            self._late.append((kind, words))
            return []
        return self._words(kind, words)

    def _words(self, kind: str, words: str) -> list[bytes]:
        """More words of a text or thinking block, which opens when it is not the open one."""
        events = [] if self._open == kind else self._begin(kind, EMPTY_BLOCKS[kind])
        if kind == "thinking":
            self._signature.feed(words)
            if self._hidden:
                return events
        return [*events, self._delta({"type": f"{kind}_delta", kind: words})]

    def _advance_first_call(self, at_end: bool = False) -> list[bytes]:
        """Send what is new of the first call; its block opens once the call has its name."""
        call, words = self._assembler.answer.tool_calls[0], self._assembler.calls[0].words
        if not call.name and not at_end:
            return []
        events = [] if self._open == "tool_use" else self._begin("tool_use", tool_use(call, {}, self._new_id))
        more, self._sent = "".join(words[self._sent:]), len(words)
        return events + self._arguments(more)

    def _arguments(self, more: str) -> list[bytes]:
        return [self._delta({"type": "input_json_delta", "partial_json": more})] if more else []

    def _begin(self, kind: str, block: dict[str, Any]) -> list[bytes]:
        events = self._end_block()
        self._index += 1
        self._open = kind
        return [*events, _event("content_block_start", index=self._index, content_block=block)]

    def _end_block(self) -> list[bytes]:
        if self._open is None:
            return []
        events = []
        if self._open == "thinking":
            events.append(self._delta({"type": "signature_delta", "signature": self._signature.text()}))
            self._signature = Signature()
        self._open = None
        return [*events, _event("content_block_stop", index=self._index)]

    def _delta(self, delta: dict[str, Any]) -> bytes:
        return _event("content_block_delta", index=self._index, delta=delta)


def error_event(error: Exception) -> bytes:
    return b"event: error\ndata: %b\n\n" % dumps(error_envelope(error))


PING = b'event: ping\ndata: {"type":"ping"}\n\n'


def _event(kind: str, **fields: Any) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), dumps({"type": kind, **fields}))
