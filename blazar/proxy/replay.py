"""A kept answer given to one more client, as its dialect writes one that an engine has just made; and an answer taken
down while it passes, to be kept."""

import secrets
import time
from collections.abc import Iterator
from typing import Any

from blazar.proxy.answer_cache import Kept
from blazar.proxy.assemble import Assembler
from blazar.proxy.dialects.openai_whole import Whole
from blazar.proxy.exchange import Answer, Exchange, Reply
from blazar.proxy.json import BadJson, dumps, loads
from blazar.proxy.sse import SseReader

LONGEST = 256 << 10
"""Characters of the longest answer that is kept."""

Event = dict[str, Any]


def replay(exchange: Exchange, kept: Kept, wants_usage: bool) -> Reply:
    """Answer the exchange. `wants_usage` says whether OpenAI's stream is to tell it."""
    exchange.first_byte = time.monotonic()
    events = chunks(exchange, kept)
    if not exchange.dialect.relays:
        return _stream(exchange, _translated(exchange, events)) if exchange.stream else _assembled(exchange, events)
    if exchange.stream:
        shown = events if wants_usage else events[:-1]
        return _stream(exchange, b"".join(b"data: %b\n\n" % dumps(event) for event in shown) + b"data: [DONE]\n\n")
    whole = Whole()
    for event in events:
        whole.feed(event)
    return exchange.answer(dumps(whole.value()))


def chunks(exchange: Exchange, kept: Kept) -> list[Event]:
    """The answer as the chunks of a stream, of which the last has the usage and nothing else."""
    head = {"id": f"chatcmpl-{secrets.token_hex(16)}", "object": "chat.completion.chunk", "created": int(time.time()),
            "model": exchange.asked}
    deltas: list[Event] = [{"role": "assistant"}]
    if kept.thinking:
        deltas.append({"reasoning_content": kept.thinking})
    deltas.append({"content": kept.text})
    made = [{**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    end = {"index": 0, "delta": {}, "finish_reason": "stop"}
    if kept.stop_text:
        end["stop_reason"] = kept.stop_text
    usage = kept.usage
    counts = {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens,
              "total_tokens": usage.prompt_tokens + usage.completion_tokens}
    return [*made, {**head, "choices": [end]}, {**head, "choices": [], "usage": counts}]


def _assembled(exchange: Exchange, events: list[Event]) -> Reply:
    assembler = Assembler(exchange.stops)
    for event in events:
        assembler.feed(event)
    return exchange.answer(exchange.dialect.render(exchange, assembler.finish()))


def _translated(exchange: Exchange, events: list[Event]) -> bytes:
    translator = exchange.dialect.translator(exchange)
    return b"".join([*map(translator.feed, events), translator.finish()])


def _stream(exchange: Exchange, body: bytes) -> Reply:
    sink = exchange.sink
    sink.start(200, [*exchange.headers, ("Content-Type", exchange.dialect.stream_type), ("Cache-Control", "no-cache")])
    sink.write(body)
    sink.finish()
    return Reply(200)


class Listener:
    """Takes down the answer of one exchange: its child's `events`, or the `body` that its client is sent."""

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._assembler: Assembler | None = None

    def events(self, events: Iterator[Event]) -> Iterator[Event]:
        """The events of an attempt, as they are."""
        assembler = self._assembler = Assembler(self._exchange.stops)
        for event in events:
            assembler.feed(event)
            yield event

    def body(self, body: bytes) -> None:
        """An answer of OpenAI's form."""
        assembler = Assembler()
        try:
            for event in _events(body) if self._exchange.stream else [_as_event(loads(body))]:
                assembler.feed(event)
        except BadJson:
            return
        self._assembler = assembler

    def kept(self) -> Kept | None:
        """What may be kept of an answer that has ended well; None when it is not text that came to its own end."""
        answer = self._assembler.finish() if self._assembler is not None else Answer()
        if answer.finish_reason != "stop" or answer.tool_calls or not answer.text:
            return None
        if len(answer.text) + len(answer.thinking) > LONGEST:
            return None
        return Kept(answer.text, answer.thinking, answer.stop_text, answer.usage)


def _events(body: bytes) -> Iterator[Event]:
    reader = SseReader()
    for data in [*reader.feed(body), *reader.finish()]:
        if data.strip() != "[DONE]":
            event = loads(data)
            if not isinstance(event, dict) or event.get("error"):
                raise BadJson("it is an error")
            yield event


def _as_event(value: Any) -> Event:
    """A whole chat completion as the one chunk that says all of it."""
    choices = value.get("choices") if isinstance(value, dict) else None
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        raise BadJson("it is no answer")
    choice = {**choices[0], "delta": choices[0].get("message"), "finish_reason": choices[0].get("finish_reason")}
    return {**value, "choices": [choice]}
