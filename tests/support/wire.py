"""A child's bytes played through a dialect, and what a client gets, read as strictly as the standards are."""

import itertools
import json
import random

from blazar.proxy.assemble import Assembler
from blazar.proxy.dialects.anthropic import AnthropicDialect
from blazar.proxy.dialects.ollama import OllamaDialect
from blazar.proxy.dialects.openai import OpenAIDialect
from blazar.proxy.dialects.responses import ResponsesDialect
from blazar.proxy.json import loads
from blazar.proxy.sse import SseReader

NOW = 1767225600.0
"""2026-01-01T00:00:00Z."""


def dialects():
    """A dialect by name, with a stopped clock and counted ids."""
    numbers = itertools.count()
    return {
        "openai": OpenAIDialect(),
        "ollama": OllamaDialect(now=lambda: NOW, monotonic=lambda: 0.0, new_id=lambda: f"call_new{next(numbers)}"),
        "anthropic": AnthropicDialect(new_id=lambda prefix: f"{prefix}_new{next(numbers)}"),
        "responses": ResponsesDialect(new_id=lambda prefix: f"{prefix}_new{next(numbers)}", now=lambda: NOW),
    }


def chunk(content=None, *, reason=None, **delta):
    """One chat.completion.chunk with such a delta."""
    if content is not None:
        delta["content"] = content
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]}


def call(index, arguments, id=None, name=None):
    """One entry of a delta's `tool_calls`."""
    function = {"arguments": arguments} if name is None else {"name": name, "arguments": arguments}
    return {"index": index, "function": function} if id is None else {"index": index, "id": id, "function": function}


def counts(prompt=7, completion=3):
    """The last chunk of llama.cpp, with usage and timings."""
    return {"choices": [], "usage": {"prompt_tokens": prompt, "completion_tokens": completion},
            "timings": {"prompt_n": prompt, "prompt_ms": 1.5, "predicted_n": completion, "predicted_ms": 20.25}}


def sse(chunks, done=True):
    """The chunks as a child writes them."""
    events = [json.dumps(item) for item in chunks] + (["[DONE]"] if done else [])
    return "".join(f"data: {event}\n\n" for event in events).encode()


def cut(data, seed):
    """`data` in pieces of random size."""
    chance, pieces = random.Random(seed), []
    while data:
        size = chance.choice([1, 1, 2, 3, 7, 50, 400])
        pieces.append(data[:size])
        data = data[size:]
    return pieces


def events_of(data, seed=None):
    """The chunks inside a child's bytes."""
    reader = SseReader()
    payloads = [payload for piece in ([data] if seed is None else cut(data, seed)) for payload in reader.feed(piece)]
    payloads += reader.finish()
    return [loads(payload) for payload in payloads if payload != "[DONE]"]


def streamed(exchange, data, seed=None):
    """What a streaming client gets for a child's bytes."""
    translator = exchange.dialect.translator(exchange)
    return b"".join([*(translator.feed(event) for event in events_of(data, seed)), translator.finish()])


def buffered(exchange, data):
    """What a client that wants one JSON gets."""
    assembler = Assembler()
    for event in events_of(data):
        assembler.feed(event)
    return exchange.dialect.render(exchange, assembler.finish())


def ndjson(data):
    """The objects of an NDJSON stream; a blank line or anything but an object fails."""
    assert data.endswith(b"\n")
    lines = [json.loads(line) for line in data.split(b"\n")[:-1]]
    assert all(isinstance(line, dict) for line in lines)
    return lines


def anthropic_events(data):
    """The events of an Anthropic stream, after checking them against the one order that is allowed."""
    events = []
    for block in data.decode().split("\n\n")[:-1]:
        head, body = block.split("\n")
        event = json.loads(body.removeprefix("data: "))
        assert head == f"event: {event['type']}"
        events.append(event)
    kinds = [event["type"] for event in events]
    assert kinds[0] == "message_start" and kinds[-2:] == ["message_delta", "message_stop"]
    assert isinstance(events[0]["message"]["usage"]["input_tokens"], int)
    open_block, expected = None, 0
    for event in events[1:-2]:
        if event["type"] == "content_block_start":
            assert open_block is None and event["index"] == expected
            open_block, expected = event["index"], expected + 1
        else:
            assert event["type"] in ("content_block_delta", "content_block_stop") and event["index"] == open_block
            open_block = None if event["type"] == "content_block_stop" else open_block
    assert open_block is None
    assert {"stop_reason", "stop_sequence"} <= set(events[-2]["delta"])
    assert isinstance(events[-2]["usage"]["output_tokens"], int)
    return events


def anthropic_blocks(events):
    """The content blocks that the events build."""
    blocks = []
    for event in events:
        if event["type"] == "content_block_start":
            blocks.append(dict(event["content_block"]))
        elif event["type"] == "content_block_delta":
            block, delta = blocks[-1], event["delta"]
            if delta["type"] == "signature_delta":
                assert block["type"] == "thinking" and not block["signature"]
                block["signature"] = delta["signature"]
                continue
            assert delta["type"] == {"text": "text_delta", "thinking": "thinking_delta",
                                     "tool_use": "input_json_delta"}[block["type"]]
            if block["type"] == "tool_use":
                block["json"] = block.get("json", "") + delta["partial_json"]
            else:
                block[block["type"]] += delta[block["type"]]
    for block in blocks:
        if block["type"] == "tool_use":
            block["input"] = json.loads(block.pop("json", "{}"))
    return blocks


def responses_events(data):
    """The events of a response's stream, after checking them against the one order that is allowed."""
    events = []
    for block in data.decode().split("\n\n")[:-1]:
        head, body = block.split("\n")
        event = json.loads(body.removeprefix("data: "))
        assert head == f"event: {event['type']}"
        events.append(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    kinds = [event["type"] for event in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] in ("response.completed", "response.incomplete", "response.failed")
    assert {event["response"]["id"] for event in events if "response" in event} == {events[0]["response"]["id"]}
    assert kinds[-1] == f"response.{events[-1]['response']['status']}" or kinds[-1] == "response.failed"
    return events


def responses_items(events):
    """The items that the events build, each checked against what its `done` says."""
    items, open_items = {}, set()
    for event in events[2:-1]:
        place, kind = event["output_index"], event["type"].removeprefix("response.")
        if kind == "output_item.added":
            assert place not in items and event["item"]["status"] == "in_progress"
            items[place] = {**event["item"], "words": ""}
            open_items.add(place)
            continue
        assert place in open_items, event
        item = items[place]
        if kind == "output_item.done":
            assert {**event["item"], "status": 0} == {**item["whole"], "status": 0}
            items[place] = event["item"]
            open_items.remove(place)
            continue
        assert event["item_id"] == item["id"] and ("content_index" in event) == (not item["type"].endswith("_call"))
        if kind == "content_part.added":
            assert item["content"] == [] and event["part"]["text"] == ""
            item["content"].append(event["part"])
        elif kind == "content_part.done":
            item["whole"] = {name: item[name] for name in item if name != "words"} | {"content": [event["part"]]}
            assert event["part"] == item["content"][0] | {"text": item["words"]}
        elif kind.endswith(".delta"):
            assert event["delta"]
            item["words"] += event["delta"]
        else:
            field = next(name for name in ("text", "arguments", "input") if name in event)
            assert event[field] == item["words"]
            if field != "text":
                item["whole"] = {name: item[name] for name in item if name != "words"} | {field: item["words"]}
    assert not open_items or events[-1]["type"] == "response.failed"
    return [items[place] for place in sorted(items)]
