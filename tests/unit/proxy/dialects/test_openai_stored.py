"""One object from the bytes of a chat completion that passed."""

import json

import pytest

from blazar.proxy.dialects import openai_stored
from tests.support.wire import call, chunk, counts, sse

HEAD = {"id": "chatcmpl-1", "created": 5, "model": "m"}


def joined(*chunks, done=True):
    return openai_stored.completion(sse([HEAD | item for item in chunks], done), True)


def test_a_stream_becomes_the_object_that_a_plain_answer_would_have_been():
    found = joined(chunk(role="assistant", content=None), chunk(reasoning_content="t"), chunk("a"), chunk("b"),
                   chunk(reason="stop"), counts())
    assert found["choices"] == [{"index": 0, "finish_reason": "stop", "logprobs": None, "message": {
        "role": "assistant", "content": "ab", "refusal": None, "reasoning_content": "t"}}]
    assert found["usage"] == {"prompt_tokens": 7, "completion_tokens": 3}
    assert (found["id"], found["object"], found["created"], found["model"]) == ("chatcmpl-1", "chat.completion", 5, "m")


def test_calls_logprobs_and_counts_from_timings():
    timed = chunk(reason="tool_calls") | {"timings": {"prompt_n": 3, "cache_n": 1, "predicted_n": 2}}
    worded = chunk(tool_calls=[call(0, "{}", "c", "f")])
    worded["choices"][0]["logprobs"] = {"content": [{"token": "x"}]}
    choice = (found := joined(worded, timed, done=False))["choices"][0]
    assert choice["message"]["content"] is None and choice["finish_reason"] == "tool_calls"
    assert choice["message"]["tool_calls"] == [{"id": "c", "type": "function",
                                                "function": {"name": "f", "arguments": "{}"}}]
    assert choice["logprobs"] == {"content": [{"token": "x"}]}
    assert found["usage"] == {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6}


def test_several_choices():
    second = {"choices": [{"index": 1, "delta": {"content": "b"}, "finish_reason": "length"}]}
    choices = joined(chunk("a"), second, chunk("c", reason="stop"))["choices"]
    assert [(one["index"], one["message"]["content"], one["finish_reason"]) for one in choices] == [
        (0, "ac", "stop"), (1, "b", "length")]


@pytest.mark.parametrize("body", [b"data: {\n\n", b"data: 5\n\n", sse([chunk("a"), {"error": {"message": "no"}}]),
                                  sse([chunk("a")]), b""])
def test_what_is_not_whole_is_none(body):
    assert openai_stored.completion(body, True) is None


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"id":"x"}', b'{"id":5,"choices":[]}', b'{"id":"","choices":[]}'])
def test_nor_is_what_is_no_completion(body):
    assert openai_stored.completion(body, False) is None


def test_a_plain_answer_stays_as_it_is():
    plain = {"id": "x", "choices": [{"index": 0}], "extra": 1}
    assert openai_stored.completion(json.dumps(plain).encode(), False) == plain


def test_messages():
    image = {"type": "image_url", "image_url": {"url": "u"}}
    parts = [{"type": "text", "text": "a"}, image, {"type": "text", "text": "b"}]
    assert openai_stored.messages("x", [{"role": "user", "content": "hi"}, {"role": "user", "content": parts}, 5]) == [
        {"id": "x-0", "role": "user", "content": "hi", "content_parts": None},
        {"id": "x-1", "role": "user", "content": "a\nb", "content_parts": parts},
        {"id": "x-2", "role": "user", "content": 5, "content_parts": None}]
