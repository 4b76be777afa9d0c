"""What an answer may look like: errors in their dialect's shape, streams in their dialect's grammar."""

import json

from blazar.proxy.sse import SseReader
from tests.support.fuzz.client import Answer


class Misshapen(Exception):
    """The answer has a shape that its dialect does not know."""


def check(dialect: str, answer: Answer) -> str:
    """The answer's outcome in a word: its status, and whether a stream ended with an error."""
    if answer.status >= 300:
        return _check_error(dialect, answer)
    kind = answer.headers.get("content-type", "")
    if kind == "text/event-stream":
        return _check_events(dialect, answer)
    if kind == "application/x-ndjson":
        return _check_lines(answer)
    if kind.startswith("application/json") and answer.whole and answer.body and dialect != "openai":
        _object(answer.body)
    return str(answer.status) if answer.whole else f"{answer.status} cut"


def _check_error(dialect: str, answer: Answer) -> str:
    told = _object(answer.body)
    if not answer.headers.get("content-type", "").startswith("application/json"):
        raise Misshapen(f"an error of type {answer.headers.get('content-type')}")
    error = told.get("error")
    if dialect == "ollama":
        right = set(told) == {"error"} and isinstance(error, str)
    else:
        right = isinstance(error, dict) and isinstance(error.get("message"), str) and bool(error["message"])
        right = right and isinstance(error.get("type"), str) and (dialect == "openai" or told.get("type") == "error")
    if not right:
        raise Misshapen(f"an error that is not {dialect}'s: {answer.body[:200]!r}")
    return str(answer.status)


def _check_events(dialect: str, answer: Answer) -> str:
    reader = SseReader()
    events = [json.loads(data) for data in [*reader.feed(answer.body), *reader.finish()] if data != "[DONE]"] \
        if dialect == "anthropic" else []
    if dialect != "anthropic":
        return "200 stream" if answer.whole else "200 stream cut"
    kinds = [event["type"] for event in events]
    if not answer.whole or kinds[-1:] not in (["message_stop"], ["error"]):
        raise Misshapen(f"a stream that ends with {kinds[-1:]}")
    _check_order(events)
    return "200 stream" if kinds[-1] == "message_stop" else "200 stream error"


def _check_order(events: list[dict]) -> None:
    """Blocks one after the other, between one start and one end."""
    open_block, blocks = None, 0
    for place, event in enumerate(events):
        kind = event["type"]
        if kind == "error":
            return
        if (kind == "message_start") != (place == 0):
            raise Misshapen(f"{kind} at place {place}")
        if kind == "content_block_start":
            if open_block is not None or event["index"] != blocks:
                raise Misshapen("a block starts inside another")
            open_block, blocks = blocks, blocks + 1
        elif kind in ("content_block_delta", "content_block_stop"):
            if event["index"] != open_block:
                raise Misshapen(f"{kind} of a block that is not open")
            open_block = None if kind == "content_block_stop" else open_block
        elif kind in ("message_delta", "message_stop") and open_block is not None:
            raise Misshapen(f"{kind} inside a block")


def _check_lines(answer: Answer) -> str:
    if not answer.whole or not answer.body.endswith(b"\n"):
        raise Misshapen(f"a stream of lines that ends with {answer.body[-80:]!r}")
    lines = [_object(line) for line in answer.body[:-1].split(b"\n")]
    if any(line.get("done") is not False for line in lines[:-1]):
        raise Misshapen("a line after the last one")
    if not (set(lines[-1]) == {"error"} or lines[-1].get("done") is True):
        raise Misshapen(f"a stream that ends with {lines[-1]}")
    return "200 stream error" if "error" in lines[-1] else "200 stream"


def _object(data: bytes) -> dict:
    try:
        value = json.loads(data)
    except ValueError:
        raise Misshapen(f"not JSON: {data[:200]!r}") from None
    if not isinstance(value, dict):
        raise Misshapen(f"not an object: {data[:200]!r}")
    return value
