"""What the soak asks, in three dialects, and how an answer is read: whole, refused in words, or broken."""

import http.client
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.wire import anthropic_blocks, anthropic_events, ndjson

PROMPTS = ("a quiet library", "seven small boats", "why is the sky so high", "count to ten")
PATHS = {"openai": "/v1/chat/completions", "ollama": "/api/chat", "anthropic": "/v1/messages"}
PATIENCE = 90.0
"""Seconds after which a request counts as hung."""


@dataclass(frozen=True)
class Question:
    """One request for a greedy answer of at most `tokens` tokens."""

    dialect: str
    stream: bool
    model: str
    prompt: str
    tokens: int

    def body(self) -> dict[str, Any]:
        common = {"model": self.model, "messages": [{"role": "user", "content": self.prompt}], "stream": self.stream}
        if self.dialect == "ollama":
            return {**common, "options": {"temperature": 0, "seed": 1, "num_predict": self.tokens}}
        usage = {"stream_options": {"include_usage": True}} if self.dialect == "openai" and self.stream else {}
        return {**common, **usage, "temperature": 0, "max_tokens": self.tokens}

    def head(self, key: str) -> dict[str, str]:
        return {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}


@dataclass
class Outcome:
    """How a request ended.

    `kind`: whole; refused (a status and words); told (words inside the stream); cut (the connection ended without a
    word); hung; wrong (what came is not of its dialect).
    """

    kind: str
    words: str = ""
    status: int = 0
    text: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    headers: dict[str, str] = field(default_factory=dict)


def ask(port: int, question: Question, key: str) -> Outcome:
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("POST", PATHS[question.dialect], json.dumps(question.body()), question.head(key))
        response = connection.getresponse()
        data = response.read()
    except TimeoutError:
        return Outcome("hung", f"no end within {PATIENCE:g} s")
    except (OSError, http.client.HTTPException) as error:
        return Outcome("cut", repr(error))
    finally:
        connection.close()
    try:
        outcome = READ[question.dialect](question, response.status, data)
    except Exception as error:  # whatever a reader stumbles over is a fault of the answer
        return Outcome("wrong", f"{error!r} in {data[-300:]!r}", response.status)
    outcome.headers = {name.lower(): value for name, value in response.getheaders()}
    return outcome


def _openai(question: Question, status: int, data: bytes) -> Outcome:
    if status != 200:
        return _refused(status, json.loads(data)["error"]["message"])
    if not question.stream:
        answer = json.loads(data)
        choice = answer["choices"][0]
        assert choice["finish_reason"] in ("stop", "length")
        return _whole(choice["message"]["content"], answer["usage"]["prompt_tokens"],
                      answer["usage"]["completion_tokens"])
    *blocks, rest = data.decode().split("\n\n")
    assert rest == "", "the stream ends within an event"
    payloads = [block.removeprefix("data: ") for block in blocks]
    events = [json.loads(payload) for payload in payloads if payload != "[DONE]"]
    if "error" in events[-1]:
        return _told(events[-1]["error"]["message"])
    assert payloads[-1] == "[DONE]" and "[DONE]" not in payloads[:-1]
    choices = [choice for event in events for choice in event["choices"]]
    assert choices[-1]["finish_reason"] in ("stop", "length")
    usage = events[-1]["usage"]
    return _whole("".join(choice["delta"].get("content") or "" for choice in choices), usage["prompt_tokens"],
                  usage["completion_tokens"])


def _ollama(question: Question, status: int, data: bytes) -> Outcome:
    if status != 200:
        return _refused(status, json.loads(data)["error"])
    lines = ndjson(data) if question.stream else [json.loads(data)]
    if "error" in lines[-1]:
        return _told(lines[-1]["error"])
    last = lines[-1]
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert last["done_reason"] in ("stop", "length") and last["total_duration"] > 0
    return _whole("".join(line["message"]["content"] for line in lines), last["prompt_eval_count"], last["eval_count"])


def _anthropic(question: Question, status: int, data: bytes) -> Outcome:
    if status != 200:
        answer = json.loads(data)
        assert answer["type"] == "error"
        return _refused(status, answer["error"]["message"])
    if question.stream:
        if b"event: error\n" in data:
            last = data.decode().split("\n\n")[-2].split("\n")
            assert last[0] == "event: error"
            return _told(json.loads(last[1].removeprefix("data: "))["error"]["message"])
        events = anthropic_events(data)
        blocks, end = anthropic_blocks(events), events[-2]
        usage, reason = {**events[0]["message"]["usage"], **end["usage"]}, end["delta"]["stop_reason"]
    else:
        answer = json.loads(data)
        blocks, usage, reason = answer["content"], answer["usage"], answer["stop_reason"]
    assert reason in ("end_turn", "max_tokens")
    cached = usage.get("cache_read_input_tokens") or 0
    return _whole("".join(block["text"] for block in blocks), usage["input_tokens"] + cached, usage["output_tokens"])


READ: dict[str, Callable[[Question, int, bytes], Outcome]] = {
    "openai": _openai, "ollama": _ollama, "anthropic": _anthropic}


def _whole(text: str, prompt_tokens: int, completion_tokens: int) -> Outcome:
    return Outcome("whole", "", 200, text, prompt_tokens, completion_tokens)


def _refused(status: int, words: str) -> Outcome:
    assert isinstance(words, str) and " " in words, "a refusal without words"
    return Outcome("refused", words, status)


def _told(words: str) -> Outcome:
    assert isinstance(words, str) and " " in words, "an error without words"
    return Outcome("told", words, 200)
