"""Whatever a conversation or an answer holds, none of it is lost, and no cut of the child's bytes matters."""

import base64
import json
import random

import pytest

from blazar.proxy.json import dumps
from tests.support.wire import buffered, call, chunk, counts, dialects, ndjson, sse, streamed

WORDS = ["", "a", "Straße ", "\u2028", "日本", "🙂", '{"x": ', "STOP", "\n\n", "\\", "</think>", "data: [DONE]"]
SEEDS = range(60)


def png(chance):
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + chance.randbytes(chance.randrange(1, 9))).decode()


def conversation(chance):
    """Random turns in an order that may be, and what of them must reach the child, in that order."""
    turns, expected = [], []
    for _ in range(chance.randrange(1, 7)):
        words = "".join(chance.choices(WORDS, k=chance.randrange(1, 4)))
        kind = chance.choice(["system", "user", "assistant", "tools"])
        if kind != "tools":
            turns.append({"role": kind, "content": words})
            pictures = [png(chance) for _ in range(chance.randrange(3))] if kind == "user" else []
            turns[-1] |= {"images": pictures} if pictures else {}
            expected += [("text", words)] * bool(words or not pictures) + [("image", one) for one in pictures]
            continue
        thought = chance.choice(WORDS)
        calls = [(f"f{number}", {"a": chance.choice(WORDS), "n": number}) for number in range(chance.randrange(1, 4))]
        turns.append({"role": "assistant", "content": words, "thinking": thought, "tool_calls": [
            {"function": {"name": name, "arguments": given}} for name, given in calls]})
        expected += [("text", words), *([("thinking", thought)] if thought else []), *(("call", one) for one in calls)]
        for name, _ in chance.sample(calls, len(calls)):
            result = chance.choice(WORDS)
            turns.append({"role": "tool", "tool_name": name, "content": result})
            expected += [("text", result), ("answers", name)]
    return turns, expected


def told(upstream):
    """The same of the child's request; results are told by the name of the call that their id belongs to."""
    found, names = [], {}
    for turn in upstream["messages"]:
        parts = turn["content"] if isinstance(turn["content"], list) else [{"type": "text", "text": turn["content"]}]
        found += [("text", part["text"]) if part["type"] == "text" else
                  ("image", part["image_url"]["url"].removeprefix("data:image/png;base64,")) for part in parts]
        if "reasoning_content" in turn:
            found.append(("thinking", turn["reasoning_content"]))
        for one in turn.get("tool_calls", []):
            assert one["id"] not in names
            names[one["id"]] = one["function"]["name"]
            found.append(("call", (one["function"]["name"], json.loads(one["function"]["arguments"]))))
        if turn["role"] == "tool":
            found.append(("answers", names[turn["tool_call_id"]]))
    return found


@pytest.mark.parametrize("seed", SEEDS)
def test_no_part_of_a_conversation_is_lost(seed):
    turns, expected = conversation(random.Random(seed))
    exchange = dialects()["ollama"].parse("chat", dumps({"model": "m", "messages": turns}), {}, "r1")
    assert told(json.loads(exchange.upstream_body)) == expected


def answer(chance):
    """Random chunks of an answer, and its text, thoughts, calls and likely tokens."""
    chunks, text, thinking, calls, likely = [], "", "", [], []
    for _ in range(chance.randrange(9)):
        words, kind = chance.choice(WORDS), chance.choice(["text", "thinking", "both", "likely", "empty"])
        thinking += words if kind in ("thinking", "both") else ""
        text += words if kind in ("text", "both", "likely") else ""
        delta = {"reasoning_content": words} if kind in ("thinking", "both") else {}
        chunks.append(chunk(words if kind in ("text", "both", "likely") else None, **delta))
        if kind == "likely":
            chunks[-1]["choices"][0]["logprobs"] = {"content": [{"token": words, "logprob": -1.0, "bytes": None}]}
            likely.append(words)
    for number in range(chance.randrange(4)):
        calls.append({"name": f"f{number}", "arguments": {"a": chance.choice(WORDS)}})
    pieces = [(number, piece) for number, one in enumerate(calls) for piece in halves(dumps(one["arguments"]), chance)]
    for number, one in enumerate(calls):
        chunks.append(chunk(tool_calls=[call(number, "", f"id{number}", one["name"])]))
    for number, piece in sorted(pieces, key=lambda pair: pair[1][0]):  # first halves first: the calls interleave
        chunks.append(chunk(tool_calls=[call(number, piece[1])]))
    return [*chunks, chunk(reason="tool_calls" if calls else "stop"), counts()], text, thinking, calls, likely


def halves(written, chance):
    text = written.decode()
    at = chance.randrange(len(text))
    return [(0, text[:at]), (1, text[at:])]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_part_of_an_answer_is_lost_and_no_cut_matters(seed):
    chunks, text, thinking, calls, likely = answer(random.Random(seed))
    data, body = sse(chunks), {"model": "m", "messages": [{"role": "user", "content": "hi"}], "logprobs": True}

    def exchange():
        return dialects()["ollama"].parse("chat", dumps(body), {}, "r1")
    stream = streamed(exchange(), data)
    for cut in range(5):
        assert streamed(exchange(), data, cut) == stream
    whole = json.loads(buffered(exchange(), data))
    *pieces, last = ndjson(stream)
    assert last["done"] and not any(piece["done"] for piece in pieces)
    messages = [piece["message"] for piece in pieces]
    for field, value in (("content", text), ("thinking", thinking)):
        assert "".join(message.get(field, "") for message in messages) == whole["message"].get(field, "") == value
    called = [one["function"] for message in messages for one in message.get("tool_calls", [])]
    assert called == [one["function"] for one in whole["message"].get("tool_calls", [])]
    assert called == [{"index": place, **call} for place, call in enumerate(calls)]
    assert [token["token"] for piece in pieces for token in piece.get("logprobs", [])] == likely
    assert [token["token"] for token in whole.get("logprobs", [])] == likely


@pytest.mark.parametrize("seed", range(20))
def test_the_same_for_what_fills_a_gap(seed):
    chance = random.Random(seed)
    words = chance.choices(WORDS, k=6)
    chunks = [*({"content": word, "stop": False} for word in words), {"content": "", "stop": True, "stop_type": "eos"}]
    body = dumps({"model": "m", "prompt": "a", "suffix": "b"})

    def exchange():
        return dialects()["ollama"].parse("generate", body, {}, "r1")
    lines = ndjson(streamed(exchange(), sse(chunks, done=False), seed))
    assert "".join(line["response"] for line in lines) == "".join(words)
    assert json.loads(buffered(exchange(), sse(chunks)))["response"] == "".join(words)
    assert lines[-1]["done_reason"] == "stop"
