"""The events an Anthropic client gets, checked as a grammar, and the buffered answer beside them."""

import hashlib
import json
import random
from base64 import b64encode

import pytest

from blazar.errors import BodyTooLarge, ChildFailed, ModelForbidden, ModelNotFound, RequestRefused, Unauthenticated
from blazar.proxy.dialects.anthropic import random_id
from tests.support.wire import (
    anthropic_blocks,
    anthropic_events,
    buffered,
    call,
    chunk,
    counts,
    dialects,
    sse,
    streamed,
)


def exchange(**fields):
    body = {"model": "M", "max_tokens": 5, "messages": [{"role": "user", "content": "hi"}], **fields}
    return dialects()["anthropic"].parse("messages", json.dumps(body).encode(), {}, "r1")


def both(chunks, **fields):
    """The blocks and the last delta, which must be the same streamed and buffered."""
    data = sse(chunks)
    events = anthropic_events(streamed(exchange(**fields), data))
    whole = json.loads(buffered(exchange(**fields), data))
    blocks = anthropic_blocks(events)
    assert [{**block, "id": 0} for block in blocks] == [{**block, "id": 0} for block in whole["content"]]
    ending = {key: whole[key] for key in ("stop_reason", "stop_sequence")}
    assert events[-2]["delta"] == ending and events[-2]["usage"] == whole["usage"]
    return whole["content"], ending["stop_reason"], ending["stop_sequence"]


SIGNED = b64encode(hashlib.sha256(b"ab").digest()).decode()
THOUGHT = {"type": "thinking", "thinking": "ab", "signature": SIGNED}
WORDS = {"type": "text", "text": "xy"}


def use(id, name, **arguments):
    return {"type": "tool_use", "id": id, "name": name, "input": arguments}


def test_thinking_text_and_a_tool_in_one_turn():
    """FC-16."""
    assert both([chunk(role="assistant", content=None), chunk(reasoning_content="a"), chunk("x", reasoning_content="b"),
                 chunk("y"), chunk(tool_calls=[call(0, "{}", "t", "f")]), chunk(""), chunk(reason="tool_calls"),
                 counts()]) == ([THOUGHT, WORDS, use("t", "f")], "tool_use", None)


@pytest.mark.parametrize(("chunks", "content", "reason"), [
    ([], [], "end_turn"), ([chunk(reason="stop")], [], "end_turn"), ([chunk("")], [], "end_turn"),
    ([chunk("xy", reason="stop")], [WORDS], "end_turn"),
    ([chunk("x"), chunk("y", reason="length")], [WORDS], "max_tokens"),
    ([chunk(reasoning_content="ab")], [THOUGHT], "end_turn"),
    ([chunk(tool_calls=[call(0, "", "t", "f")], reason="stop")], [use("t", "f")], "tool_use"),
    ([chunk("xy", tool_calls=[call(0, "", "t", "f")])], [WORDS, use("t", "f")], "tool_use")])
def test_every_answer_has_its_envelope(chunks, content, reason):
    """FC-16, FC-08."""
    assert both(chunks) == (content, reason, None)


def test_interleaved_calls_are_told_one_after_the_other():
    """FC-06."""
    chunks = [chunk(tool_calls=[call(0, '{"x":', "a", "f")]), chunk(tool_calls=[call(1, '{"y":', "b", "g")]),
              chunk(tool_calls=[call(0, "1}")]), chunk(tool_calls=[call(1, "2}")]),
              chunk(tool_calls=[call(2, "", "c", "h")]), chunk(reason="tool_calls")]
    assert both(chunks)[0] == [use("a", "f", x=1), use("b", "g", y=2), use("c", "h")]


def test_text_after_a_call_follows_it():
    events = anthropic_events(streamed(exchange(), sse([chunk(tool_calls=[call(0, "{", "a", "f")]), chunk("late"),
                                                        chunk(tool_calls=[call(0, "}")]), chunk("r")])))
    assert anthropic_blocks(events) == [use("a", "f"), {"type": "text", "text": "later"}]


def test_a_call_without_an_id_or_a_name_yet():
    chunks = [chunk(tool_calls=[{"index": 0, "function": {"arguments": "{"}}]),
              chunk(tool_calls=[call(0, "}", None, "f")])]
    (block,) = anthropic_blocks(anthropic_events(streamed(exchange(), sse(chunks))))
    assert block["name"] == "f" and block["id"].startswith("toolu_")


def test_the_first_word_is_out_before_the_end():
    opened = exchange()
    translator = opened.dialect.translator(opened)
    assert b"message_start" in translator.feed(chunk(role="assistant"))
    assert b'"text":"a"' in translator.feed(chunk("a"))
    assert b'"partial_json":"{"' in translator.feed(chunk(tool_calls=[call(0, "{", "a", "f")]))
    assert translator.feed(counts(5, 2)) == b""


def test_usage_is_real():
    events = anthropic_events(streamed(exchange(), sse([chunk("a"), counts(7, 3)])))
    assert (events[-2]["usage"]["input_tokens"], events[-2]["usage"]["output_tokens"]) == (7, 3)
    early = anthropic_events(streamed(exchange(), sse([{**chunk("a"), "usage": {"prompt_tokens": 7}}, counts(7, 3)])))
    assert early[0]["message"]["usage"]["input_tokens"] == 7


@pytest.mark.parametrize(("named", "ending"), [
    ({"stop_reason": "STOP"}, ("stop_sequence", "STOP")), ({"matched_stop": "STOP"}, ("stop_sequence", "STOP")),
    ({"stopping_word": "STOP"}, ("stop_sequence", "STOP")), ({"stop_reason": 7}, ("end_turn", None)),
    ({"matched_stop": "other"}, ("end_turn", None)), ({}, ("end_turn", None))])
def test_a_stop_sequence_of_the_caller(named, ending):
    """FC-19."""
    last = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", **named}]}
    assert both([chunk("xy"), last], stop_sequences=["STOP", "\n\nHuman:"])[1:] == ending
    assert both([chunk("xy"), last])[1:] == ("end_turn", None)


def test_broken_arguments_stay_visible():
    data = sse([chunk(tool_calls=[call(0, "{city:", "a", "f")]), chunk(reason="tool_calls")])
    assert b'"partial_json":"{city:"' in streamed(exchange(), data)
    assert json.loads(buffered(exchange(), data))["content"] == [use("a", "f", _unparsed="{city:")]


@pytest.mark.parametrize("seed", range(30))
def test_any_order_of_pieces_makes_a_well_formed_stream(seed):
    """Streamed and buffered agree on every block, whatever a child sends in whatever order, and nothing is lost."""
    chance = random.Random(seed)
    arguments = {index: ['{"n"', ":", str(index), "}"] for index in range(chance.randrange(4))}
    chunks = [chunk(tool_calls=[call(index, "", f"id{index}", f"f{index}")]) for index in arguments]
    sent = []
    for _ in range(30):
        kind = chance.choice(["text", "thinking", "call"])
        if kind == "call" and any(arguments.values()):
            index = chance.choice([index for index, left in arguments.items() if left])
            chunks.append(chunk(tool_calls=[call(index, arguments[index].pop(0))]))
        else:
            sent.append(chance.choice("ab\n" if kind == "text" else "cd"))
            chunks.insert(chance.randrange(len(chunks) + 1), chunk(sent[-1]) if kind == "text" else
                          chunk(reasoning_content=sent[-1]))
    chunks += [chunk(tool_calls=[call(index, "".join(left))]) for index, left in arguments.items()]
    data = sse([*chunks, chunk(reason="stop"), counts()])
    blocks = anthropic_blocks(anthropic_events(streamed(exchange(), data, seed)))
    whole = json.loads(buffered(exchange(), data))["content"]
    assert blocks == whole
    for kind, told in [("text", "ab\n"), ("thinking", "cd")]:
        said = "".join(block[kind] for block in whole if block["type"] == kind)
        assert sorted(said) == sorted(words for words in sent if words in told)
    assert [block["input"] for block in whole if block["type"] == "tool_use"] == [{"n": index} for index in arguments]


def test_thinking_may_be_hidden():
    hidden = {"type": "thinking", "thinking": "", "signature": SIGNED}
    chunks = [chunk(reasoning_content="a"), chunk(reasoning_content="b"), chunk("xy")]
    assert both(chunks, thinking={"type": "adaptive", "display": "omitted"})[0] == [hidden, WORDS]
    assert both(chunks, thinking={"type": "adaptive", "display": "summarized"})[0] == [THOUGHT, WORDS]


def test_each_thought_has_its_own_signature():
    content, _, _ = both([chunk(reasoning_content="ab"), chunk("xy"), chunk(reasoning_content="c")])
    assert [block["type"] for block in content] == ["thinking", "text", "thinking"]
    assert content[0] == THOUGHT and content[2]["signature"] not in ("", SIGNED)


def test_what_was_in_the_engines_cache_is_told_apart():
    """FC-18: all of the input is the sum."""
    cached = {**counts(7, 3), "usage": {"prompt_tokens": 7, "completion_tokens": 3,
                                        "prompt_tokens_details": {"cached_tokens": 5}}}
    usage = anthropic_events(streamed(exchange(), sse([chunk("a"), cached])))[-2]["usage"]
    assert usage == {"input_tokens": 2, "output_tokens": 3, "cache_creation_input_tokens": 0,
                     "cache_read_input_tokens": 5}


@pytest.mark.parametrize(("error", "status", "kind"), [
    (RequestRefused("no"), 400, "invalid_request_error"), (Unauthenticated(), 401, "authentication_error"),
    (ModelForbidden("no"), 403, "permission_error"), (ModelNotFound("no"), 404, "not_found_error"),
    (BodyTooLarge(limit="1"), 413, "request_too_large"), (ChildFailed("no"), 502, "api_error"),
    (KeyError("secret"), 500, "api_error")])
def test_errors(error, status, kind):
    dialect = dialects()["anthropic"]
    found, body = dialect.error(error)
    told = json.loads(body)
    assert (found, told["type"], told["error"]["type"]) == (status, "error", kind)
    assert told["error"]["message"] and "secret" not in told["error"]["message"]
    translator = dialect.translator(exchange())
    assert translator.fail(error) == dialect.stream_error(error) == b"event: error\ndata: " + body + b"\n\n"


def test_ids_are_new_each_time():
    assert random_id("msg").startswith("msg_") and len({random_id("toolu") for _ in range(100)}) == 100
