"""The events of a response's stream, in their order, from a child's chunks."""

from collections.abc import Callable
from typing import Any

from blazar.proxy.assemble import Assembler
from blazar.proxy.dialects import responses_render as render
from blazar.proxy.dialects.responses_items import Item
from blazar.proxy.exchange import Exchange, Part, Usage
from blazar.proxy.json import dumps

NAMES = {"thinking": "reasoning_text", "text": "output_text"}
"""What the events of words are called, by the kind of their part."""


class ResponsesTranslator:
    """One response as events: its start, its items, its end.

    An item is a part of the answer and has its place. Words end where another part begins; calls stay open until the
    end, since their pieces may come between those of others.
    """

    def __init__(self, exchange: Exchange, assembler: Assembler, new_id: render.NewId,
                 now: Callable[[], float]) -> None:
        self._exchange = exchange
        self._assembler = assembler
        self._new_id = new_id
        self._now = now
        self._number = 0
        """Of the next event."""
        self._items: list[Item | None] = []
        """By place; None while a call has no name yet."""
        self._sent: list[int] = []
        """By place: pieces of its words, or of its arguments."""
        self._closed = 0
        """Places of words before this one are closed."""

    @property
    def usage(self) -> Usage:
        return self._assembler.answer.usage

    @property
    def stopped(self) -> bool:
        return self._assembler.stopped

    def feed(self, event: dict[str, Any]) -> bytes:
        self._assembler.feed(event)
        return b"".join([*self._start(), *self._advance()])

    def finish(self) -> bytes:
        events = self._start()
        answer = self._assembler.finish()
        parts = render.parts_of(answer)
        events += self._advance(at_end=True)
        statuses = render.statuses(answer)
        for place in range(self._closed, len(parts)):
            if not self._is_closed(place):
                events += self._close(place, statuses[place])
        response = render.ended(self._exchange, answer, self._whole_items(), self._now())
        events.append(self._event(f"response.{response['status']}", response=response))
        return b"".join(events)

    def fail(self, error: Exception) -> bytes:
        started = self._start()
        answer = self._assembler.finish()
        items = [item if item["status"] == "completed" else render.closed(item, part, "incomplete")
                 for item, part in zip(self._items, answer.parts, strict=False) if item is not None]
        response = render.failed(self._exchange, answer, items, error)
        return b"".join([*started, self._event("response.failed", response=response)])

    def _start(self) -> list[bytes]:
        if self._number:
            return []
        response = self._exchange.draft.response
        return [self._event("response.created", response=response),
                self._event("response.in_progress", response=response)]

    def _advance(self, at_end: bool = False) -> list[bytes]:
        """Whatever the parts have that was not sent yet."""
        events: list[bytes] = []
        parts = self._assembler.answer.parts
        for place in range(self._closed, len(parts)):
            part = parts[place]
            if place == len(self._items):
                self._items.append(None)
                self._sent.append(0)
            if self._is_closed(place):
                continue
            if self._items[place] is None:
                if part.call is not None and not part.call.name and not at_end:
                    continue
                events += self._open(place, part)
            events += self._more(place, part)
            if part.call is None and place < len(parts) - 1:
                events += self._close(place, "completed")
        return events

    def _is_closed(self, place: int) -> bool:
        item = self._items[place]
        return item is not None and item["status"] != "in_progress"

    def _open(self, place: int, part: Part) -> list[bytes]:
        item = self._items[place] = render.opened(part, self._new_id, self._exchange.draft.tools)
        events = [self._event("response.output_item.added", output_index=place, item=item)]
        if part.call is None:
            events.append(self._event("response.content_part.added", **self._spot(place, part),
                                      part=render.content(part.kind, "")))
        return events

    def _more(self, place: int, part: Part) -> list[bytes]:
        sent = self._sent[place]
        if part.call is not None:
            if "input" in (self._items[place] or {}):
                return []  # it is known only when the arguments that hold it are whole
            kind = "function_call_arguments"
        else:
            kind = NAMES[part.kind]
        more, self._sent[place] = "".join(part.words[sent:]), len(part.words)
        return [self._event(f"response.{kind}.delta", **self._spot(place, part), delta=more)] if more else []

    def _close(self, place: int, status: str) -> list[bytes]:
        part = self._assembler.answer.parts[place]
        item = self._items[place]
        assert item is not None, "it was opened"
        spot = self._spot(place, part)
        item = self._items[place] = render.closed(item, part, status)
        if "input" in item:
            events = [self._event("response.custom_tool_call_input.delta", **spot, delta=item["input"])
                      ] if item["input"] else []
            events.append(self._event("response.custom_tool_call_input.done", **spot, input=item["input"]))
        elif part.call is not None:
            events = [] if self._sent[place] else [
                self._event("response.function_call_arguments.delta", **spot, delta=item["arguments"])]
            events.append(self._event("response.function_call_arguments.done", **spot, name=item["name"],
                                      arguments=item["arguments"]))
        else:
            whole = item["content"][0]
            events = [self._event(f"response.{NAMES[part.kind]}.done", **spot, text=whole["text"]),
                      self._event("response.content_part.done", **spot, part=whole)]
        while self._closed < len(self._items) and self._is_closed(self._closed):
            self._closed += 1
        return [*events, self._event("response.output_item.done", output_index=place, item=item)]

    def _whole_items(self) -> list[Item]:
        return [item for item in self._items if item is not None]

    def _spot(self, place: int, part: Part) -> dict[str, Any]:
        item = self._items[place]
        assert item is not None, "it was opened"
        spot = {"item_id": item["id"], "output_index": place}
        if part.call is None:
            spot["content_index"] = 0
        return spot

    def _event(self, kind: str, **fields: Any) -> bytes:
        number, self._number = self._number, self._number + 1
        if kind.startswith("response.output_text."):
            fields["logprobs"] = []
        return b"event: %b\ndata: %b\n\n" % (kind.encode(),
                                             dumps({"type": kind, "sequence_number": number, **fields}))
