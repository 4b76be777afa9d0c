"""A child's answers, whole and spoilt, carried by the question itself: the engine plays what the prompt says.

A prompt `PLAY:` + base64 tells the playing engine (tests/stubs/playing_engine.py) what to send. What is behind it is
a JSON list: pieces of the answer in base64, each sent on its own, and last `close` or `keep`.
"""

import base64
import json
from dataclasses import dataclass
from random import Random
from typing import Any

from blazar.proxy.sse import SseReader
from tests.support.fuzz import shapes
from tests.support.fuzz.client import Broken, Client
from tests.support.fuzz.fault import Fault
from tests.support.fuzz.mutate import spoil_bytes, spoil_value
from tests.support.scripted_child import chunked, delta

MARK = "PLAY:"
ROUTES = [("openai", "/v1/chat/completions"), ("openai", "/v1/completions"), ("ollama", "/api/chat"),
          ("ollama", "/api/generate"), ("anthropic", "/v1/messages")]
WORDS = ["Hel", "lo", " ", "é", "😀", "\n", "a\r\nb", "data: x", "\n\n", '"', "\\", "[DONE]", "\u2028", ""]
CUT, GARBLED, ODD, WHOLE = "cut", "garbled", "odd", "whole"


@dataclass
class Play:
    """Bytes of a child's answer, and how they were spoilt."""

    pieces: list[bytes]
    keep: bool
    kind: str
    body: bytes
    """The event stream inside, before anything was spoilt."""
    text: str | None
    """What the client must read when nothing was; None with tool calls, which each dialect tells in its way."""

    def prompt(self) -> str:
        script = [base64.b64encode(piece).decode() for piece in self.pieces] + ["keep" if self.keep else "close"]
        return MARK + base64.b64encode(json.dumps(script).encode()).decode()


def chunks(chance: Random) -> list[dict[str, Any]]:
    """A valid conversation of a child: text, thinking, calls and counts."""
    events = [delta("", role="assistant")] if chance.random() < 0.8 else []
    if chance.random() < 0.3:
        events += [delta(reasoning_content=chance.choice(WORDS)) for _ in range(chance.randrange(3))]
    events += [delta(chance.choice(WORDS)) for _ in range(chance.randrange(6))]
    if chance.random() < 0.3:
        for index in range(chance.randrange(1, 3)):
            events.append(delta(tool_calls=[{"index": index, "id": f"c{index}", "type": "function",
                                             "function": {"name": "f", "arguments": '{"x":'}}]))
            events.append(delta(tool_calls=[{"index": index, "function": {"arguments": chance.choice(["1}", "}"])}}]))
    events.append(delta(finish=chance.choice(["stop", "stop", "length", "tool_calls"])))
    if chance.random() < 0.7:
        events.append({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2},
                       "timings": {"prompt_n": 3, "prompt_ms": 1.5, "predicted_n": 2, "predicted_ms": 2.5}})
    return events


def event_stream(events: list[dict[str, Any]], chance: Random) -> bytes:
    """The events as an event stream in one of its many spellings."""
    end = chance.choice([b"\n", b"\n", b"\n", b"\r\n", b"\r"])
    name = chance.choice([b"data: ", b"data: ", b"data:", b"id: 7" + end + b"data: "])
    between = chance.choice([b"", b"", b":" + end + end, b": ping" + end])
    data = b"".join(between + name + json.dumps(event).encode() + end + end for event in events)
    return data + (name + b"[DONE]" + end + end if chance.random() < 0.85 else b"")


def _same(dialect: str, play: Play, got: bytes) -> bool:
    if dialect == "openai":
        return got == play.body
    return play.text is None or _read(dialect, got) == play.text


def _read(dialect: str, got: bytes) -> str:
    """The text in an answer, streamed or whole."""
    if dialect == "ollama":
        lines = [json.loads(line) for line in got.split(b"\n") if line]
        return "".join(line["response"] if "response" in line else line["message"]["content"] for line in lines)
    if got.startswith(b"{"):
        return "".join(block.get("text", "") for block in json.loads(got)["content"])
    reader = SseReader()
    events = [json.loads(data) for data in reader.feed(got)]
    return "".join(event["delta"].get("text", "") for event in events if event["type"] == "content_block_delta")


def pieces_of(data: bytes, chance: Random) -> list[bytes]:
    size = chance.choice([len(data) + 1, len(data) + 1, 40, 200, 1000])
    return [data[at:at + size] for at in range(0, len(data), size)]


def answer(body: bytes, chance: Random) -> tuple[bytes, bool]:
    """A whole HTTP answer with that body, and whether the connection may be kept after it."""
    framing = chance.choice(["chunked", "chunked", "chunked", "length", "close"])
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
    if framing == "chunked":
        return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunked(*filter(None, pieces_of(body, chance))), True
    if framing == "length":
        return head + b"Content-Length: %d\r\n\r\n" % len(body) + body, True
    return head + b"Connection: close\r\n\r\n" + body, False


def make(chance: Random, number: int) -> Play:
    kind = chance.choice([WHOLE, WHOLE, CUT, CUT, GARBLED, ODD, ODD])
    events = chunks(chance)
    if kind == ODD:
        for _ in range(chance.choice([1, 2, 4])):
            events = [spoil_value(event, chance) if chance.random() < 0.3 else event for event in events]
        if chance.random() < 0.2:
            events.insert(chance.randrange(len(events)), {"error": {"code": chance.choice([400, 500, "x", None]),
                                                                    "message": chance.choice(["no", None, 5])}})
    body = event_stream(events, chance)
    data, keep = answer(body, chance)
    if kind == CUT:
        data, keep = data[:number % len(data)], False
    elif kind == GARBLED:
        for _ in range(chance.choice([0, 1, 1, 2])):
            data = spoil_bytes(data, chance)
        keep = False
    return Play(pieces_of(data, chance), keep, kind, body, text_of(events) if kind == WHOLE else None)


def text_of(events: list[dict[str, Any]]) -> str | None:
    deltas = [choice["delta"] for event in events for choice in event["choices"]]
    if any("tool_calls" in found for found in deltas):
        return None
    return "".join(found.get("content", "") for found in deltas)


def question(path: str, prompt: str, stream: bool) -> dict[str, Any]:
    asked: dict[str, Any] = {"model": "solo", "stream": stream, "max_tokens": 5}
    if path.endswith(("completions", "generate")) and "chat" not in path:
        return {**asked, "prompt": prompt}
    return {**asked, "messages": [{"role": "user", "content": prompt}]}


class Streams:
    """Target: a child that answers with all sorts of bytes, through every dialect."""

    def __init__(self, port: int) -> None:
        self._client = Client(port)

    def try_one(self, chance: Random, number: int) -> str:
        play = make(chance, number)
        dialect, path = chance.choice(ROUTES)
        stream = chance.random() < 0.7
        body = json.dumps(question(path, play.prompt(), stream)).encode()
        sent = b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (path.encode(), len(body), body)
        try:
            got = self._client.ask(sent)
            if dialect == "openai" and got.status != 502:
                outcome = f"{got.status} relayed" if got.whole else f"{got.status} relayed cut"
            else:
                outcome = shapes.check(dialect, got)
        except (Broken, shapes.Misshapen) as broken:
            if isinstance(broken, Broken) and dialect == "openai" and play.kind != WHOLE:
                return "closed"  # a relayed answer that ended before anything of it could be told
            raise Fault(f"{path} {play.kind}: {broken}", sent) from broken
        self._judge(play, dialect, got.status, outcome, sent)
        if play.kind == WHOLE and not _same(dialect, play, got.body):
            raise Fault(f"{path}: the answer is not the child's: {got.body[:300]!r}", sent)
        return f"{play.kind} {outcome}"

    @staticmethod
    def _judge(play: Play, dialect: str, status: int, outcome: str, sent: bytes) -> None:
        if play.kind == WHOLE and (status != 200 or "error" in outcome or "cut" in outcome):
            raise Fault(f"a whole answer became {outcome}", sent)
        if status >= 500 and status != 502 and not (status == 500 and dialect == "openai"):
            raise Fault(f"a {play.kind} answer became {outcome}", sent)

    def close(self) -> None:
        self._client.close()
