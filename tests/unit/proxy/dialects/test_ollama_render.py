"""What an Ollama client gets for a child's chunks."""

import json
import random

import pytest

from blazar.errors import ChildFailed, ModelNotFound
from blazar.proxy.exchange import Answer, ToolCall, Usage
from tests.support.wire import buffered, call, chunk, counts, dialects, ndjson, sse, streamed

CREATED = "2026-01-01T00:00:00.000000Z"
COUNTS = {"total_duration": 21_750_000, "load_duration": 0, "prompt_eval_count": 7, "prompt_eval_duration": 1_500_000,
          "eval_count": 3, "eval_duration": 20_250_000}


def exchange(operation="chat", **fields):
    asked = {"messages": [{"role": "user", "content": "hi"}]} if operation == "chat" else {"prompt": "hi"}
    return dialects()["ollama"].parse(operation, json.dumps({"model": "M", **asked, **fields}).encode(), {}, "r1")


def message(content, **more):
    return {"model": "M", "created_at": CREATED, "message": {"role": "assistant", "content": content, **more}}


def test_a_line_for_each_piece_and_one_with_the_counts():
    data = sse([chunk(role="assistant", content=None), chunk("a"), chunk(""), chunk("b", reasoning_content="t"),
                chunk(reason="stop"), counts()])
    assert ndjson(streamed(exchange(), data)) == [
        {**message("a"), "done": False}, {**message("b", thinking="t"), "done": False},
        {**message(""), "done": True, "done_reason": "stop", **COUNTS}]


def test_generate_has_a_response_in_place_of_a_message():
    data = sse([chunk(reasoning_content="t"), chunk("a"), chunk(reason="length"), counts()])
    head = {"model": "M", "created_at": CREATED}
    assert ndjson(streamed(exchange("generate"), data)) == [
        {**head, "response": "", "thinking": "t", "done": False}, {**head, "response": "a", "done": False},
        {**head, "response": "", "done": True, "done_reason": "length", **COUNTS}]
    assert json.loads(buffered(exchange("generate"), data)) == {
        **head, "response": "a", "thinking": "t", "done": True, "done_reason": "length", **COUNTS}


def test_raw_generate_reads_plain_completions():
    data = sse([{"choices": [{"text": "a"}]}, {"choices": [{"text": "b", "finish_reason": "stop"}]}])
    assert [line["response"] for line in ndjson(streamed(exchange("generate", raw=True), data))] == ["a", "b", ""]


def test_calls_come_whole_before_the_end():
    """FC-06, FC-07, FC-08: arguments are objects, empty ones {}, whatever reason the child gave."""
    data = sse([chunk("so"), chunk(tool_calls=[call(0, '{"x":', "a", "f")]), chunk(tool_calls=[call(1, "", None, "g")]),
                chunk(tool_calls=[call(0, "1}")]), chunk(reason="stop")])
    calls = [{"id": "a", "function": {"index": 0, "name": "f", "arguments": {"x": 1}}},
             {"id": "call_new0", "function": {"index": 1, "name": "g", "arguments": {}}}]
    lines = ndjson(streamed(exchange(), data))
    assert lines[1] == {**message("", tool_calls=calls), "done": False}
    assert [line["done"] for line in lines] == [False, False, True] and lines[2]["done_reason"] == "stop"
    assert json.loads(buffered(exchange(), data))["message"] == message("so", tool_calls=calls)["message"]


def test_broken_arguments_are_shown_as_the_model_wrote_them():
    data = sse([chunk("x "), chunk(tool_calls=[call(0, "{city:", "a", "f")]), chunk(reason="tool_calls")])
    lines = ndjson(streamed(exchange(), data))
    assert [line["message"] for line in lines] == [message(text)["message"] for text in ("x ", "f({city:)", "")]
    assert json.loads(buffered(exchange(), data))["message"] == message("x f({city:)")["message"]


def test_times_are_real():
    opened = exchange()
    opened.started, opened.load_ns = -2.5, 400
    last = ndjson(streamed(opened, sse([chunk("a"), counts()])))[-1]
    assert (last["total_duration"], last["load_duration"]) == (2_500_000_000, 400)


@pytest.mark.parametrize(("keep_alive", "reason"), [(None, "load"), ("5m", "load"), (-1, "load"), (0, "unload")])
def test_load_and_unload(keep_alive, reason):
    opened = exchange(messages=[], keep_alive=keep_alive)
    assert json.loads(opened.dialect.render(opened, Answer())) == {**message(""), "done": True, "done_reason": reason}


def test_errors():
    dialect = dialects()["ollama"]
    assert dialect.error(ModelNotFound("gone")) == (404, b'{"error":"gone"}')
    status, body = dialect.error(ValueError("secret"))
    assert status == 500 and b"secret" not in body
    translator = dialect.translator(exchange())
    translator.feed(chunk("a"))
    assert translator.fail(ChildFailed("died")) == dialect.stream_error(ChildFailed("died")) == b'{"error":"died"}\n'


@pytest.mark.parametrize("seed", range(20))
def test_streamed_and_buffered_agree(seed):
    chance = random.Random(seed)
    chunks = [chunk(chance.choice(["a", "é", "\n", ""]), reasoning_content=chance.choice(["t", None]))
              for _ in range(20)]
    chunks += [chunk(tool_calls=[call(index % 3, "", f"id{index % 3}", "f")]) for index in range(chance.randrange(4))]
    data = sse([*chunks, chunk(reason="stop"), counts()])
    lines = ndjson(streamed(exchange(), data, seed))
    whole = json.loads(buffered(exchange(), data))
    assert "".join(line["message"]["content"] for line in lines) == whole["message"]["content"]
    assert "".join(line["message"].get("thinking", "") for line in lines) == whole["message"].get("thinking", "")
    assert ([made for line in lines for made in line["message"].get("tool_calls", [])]
            == whole["message"].get("tool_calls", []))
    assert {key: lines[-1][key] for key in COUNTS} == {key: whole[key] for key in COUNTS}


def test_a_writer_counts_what_it_is_given():
    opened = exchange()
    answer = Answer(text="a", tool_calls=[ToolCall("i", "f", "{}")], usage=Usage(1, 2, 0, 3, 4))
    told = json.loads(opened.dialect.render(opened, answer))
    assert (told["prompt_eval_count"], told["eval_count"], told["total_duration"]) == (1, 2, 7)
