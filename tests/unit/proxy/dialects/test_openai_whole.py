"""Chunks as llama.cpp sends them, and the answer that it gives to the same request without a stream."""

import random

import pytest

from blazar.proxy.dialects.openai_whole import Whole

HEAD = {"created": 1, "id": "chatcmpl-1", "model": "m", "system_fingerprint": "b11434",
        "object": "chat.completion.chunk"}
USAGE = {"usage": {"completion_tokens": 3, "prompt_tokens": 11, "total_tokens": 14,
                   "prompt_tokens_details": {"cached_tokens": 10}}, "timings": {"cache_n": 10, "prompt_n": 1}}
PROBABLE = [{"id": 57, "token": "I", "logprob": -2.1}, {"id": 5, "token": "'m", "logprob": -0.2}]


def chunk(delta=None, finish=None, index=0, **more):
    choice = {"finish_reason": finish, "index": index, "delta": delta or {}, **more}
    return {"choices": [choice], **HEAD}


def text_chunk(text, finish=None, logprobs=None):
    return {"choices": [{"text": text, "index": 0, "logprobs": logprobs, "finish_reason": finish}], **HEAD,
            "object": "text_completion"}


def answer(message, finish="stop", **more):
    choice = {"finish_reason": finish, "index": 0, "message": {"role": "assistant", **message}, **more}
    return {"choices": [choice], **HEAD, "object": "chat.completion", **USAGE}


def call(number, **function):
    return {"tool_calls": [{"index": number, "function": function}]}


LAST = {"choices": [], **HEAD, **USAGE}
CASES = {
    "words": ([chunk({"role": "assistant", "content": None}), chunk({"content": "Hel"}), chunk({"content": "lo"}),
               chunk(finish="stop"), LAST], answer({"content": "Hello"})),
    "nothing": ([chunk({"role": "assistant", "content": None}), chunk(finish="length"), LAST],
                answer({"content": ""}, "length")),
    "thinking": ([chunk({"role": "assistant", "content": None}), chunk({"reasoning_content": "Hm"}),
                  chunk({"reasoning_content": "m"}), chunk({"content": "Yes"}), chunk(finish="stop"), LAST],
                 answer({"content": "Yes", "reasoning_content": "Hmm"})),
    "log probabilities": ([chunk({"role": "assistant", "content": None}),
                           chunk({"content": "I"}, logprobs={"content": PROBABLE[:1]}),
                           chunk({"content": "'m"}, logprobs={"content": PROBABLE[1:]}), chunk(finish="stop"), LAST],
                          answer({"content": "I'm"}, logprobs={"content": PROBABLE})),
    "two calls": ([chunk({"role": "assistant", "content": None}),
                   chunk({"tool_calls": [{"index": 0, "id": "a", "type": "function",
                                          "function": {"name": "weather", "arguments": "{\""}}]}),
                   chunk(call(0, arguments="city\": \"Paris\"}")),
                   chunk({"tool_calls": [{"index": 1, "id": "b", "type": "function",
                                          "function": {"name": "clock", "arguments": ""}}]}),
                   chunk(call(1, arguments="{}")), chunk(finish="tool_calls"), LAST],
                  answer({"content": "", "tool_calls": [
                      {"id": "a", "type": "function", "function": {"name": "weather",
                                                                   "arguments": "{\"city\": \"Paris\"}"}},
                      {"id": "b", "type": "function", "function": {"name": "clock", "arguments": "{}"}}]},
                      "tool_calls")),
    "a completion": ([text_chunk(" the"), text_chunk(" scene"), {**text_chunk("", "length"), **USAGE}],
                     {"choices": [{"text": " the scene", "index": 0, "logprobs": None, "finish_reason": "length"}],
                      **HEAD, "object": "text_completion", **USAGE}),
    "a completion's probabilities": (
        [text_chunk("I", logprobs={"content": PROBABLE[:1]}), text_chunk("'m", logprobs={"content": PROBABLE[1:]}),
         {**text_chunk("", "length"), **USAGE}],
        {"choices": [{"text": "I'm", "index": 0, "logprobs": {"content": PROBABLE}, "finish_reason": "length"}],
         **HEAD, "object": "text_completion", **USAGE}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_pieces_make_the_answer(case):
    chunks, expected = CASES[case]
    whole = Whole()
    for each in chunks:
        whole.feed(each)
    assert whole.value() == expected


def test_odd_chunks_break_nothing():
    odd = [None, 7, "x", [], {}, [None], [{"index": "x"}], {"tool_calls": [None, 3, {"function": None}]}, True]
    dice = random.Random(7)
    for _ in range(500):
        whole = Whole()
        for _ in range(6):
            whole.feed({"choices": dice.choice([dice.choice(odd), [{"delta": dice.choice(odd), "index": dice.choice(
                odd[:3]), "logprobs": dice.choice(odd[:2])}]]), "object": dice.choice(["chat.completion.chunk", None])})
        assert isinstance(whole.value()["choices"], list)
