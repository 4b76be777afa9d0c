"""`decode_policy = "strict"`: what the grammar says, and envelopes on their way back."""

import json

import pytest

from blazar.proxy.grammar import Envelopes, calls_in, grammar


def test_the_names_are_literals():
    text = grammar(["f", 'a"b\\\n', "zwölf", "f"], may_speak=False)
    assert text.splitlines()[:2] == ["root ::= calls", 'name ::= "\\U00000022f\\U00000022" | "\\U00000022a\\U0000005C'
                                     '\\U00000022b\\U0000005C\\U0000005C\\U0000005Cn\\U00000022" | "\\U00000022zw'
                                     '\\U000000F6lf\\U00000022"']
    assert grammar(["f"], may_speak=True).startswith("root ::= calls | words\n")


F = '<tool_call>\n{"name": "f", "arguments": {"a": "</tool_call>"}}\n</tool_call>'
G = '<tool_call>{"name":"g","arguments":{}}</tool_call>'
CALL_F, CALL_G = {"name": "f", "arguments": {"a": "</tool_call>"}}, {"name": "g", "arguments": {}}


@pytest.mark.parametrize(("text", "calls", "rest"), [
    ("", [], ""), ("hello", [], "hello"), (G, [CALL_G], ""), (f"{F}\n{G}", [CALL_F, CALL_G], ""),
    (f"{G}{F[:30]}", [CALL_G], F[:30]), (F[:-12], [], F[:-12]),
    ("<tool_call>[]</tool_call>", [], "<tool_call>[]</tool_call>"),
    ('<tool_call>{"name":"g","arguments":[]}</tool_call>', [], '<tool_call>{"name":"g","arguments":[]}</tool_call>'),
])
def test_calls_in_a_text(text, calls, rest):
    found, left = calls_in(text)
    assert left == rest
    assert [(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in found] == [
        (call["name"], call["arguments"]) for call in calls]


def test_words_are_passed_on_before_more_is_asked_of_the_child():
    told = Envelopes().events(iter([{"choices": [{"index": 0, "delta": {"content": "It"}, "finish_reason": None}]}]))
    assert next(told)["choices"][0]["delta"]["content"] == "It"


@pytest.mark.parametrize("size", [1, 3, 1000])
@pytest.mark.parametrize(("text", "finish", "words", "names", "reason"), [
    (f"{F}\n{G}", "stop", "", ["f", "g"], "tool_calls"), ("It is 15C.", "stop", "It is 15C.", [], "stop"),
    ("<b", "stop", "<b", [], "stop"), (G + F[:20], "length", F[:20], ["g"], "length"),
    ("<tool", "length", "<tool", [], "length"),
])
def test_however_the_stream_is_cut(text, finish, words, names, reason, size):
    pieces = [text[at:at + size] for at in range(0, len(text), size)]
    events = [{"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]} for piece in pieces]
    events += [{"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}, {"choices": [], "usage": {}}]
    told = list(Envelopes().events(iter(events)))
    choices = [choice for event in told for choice in event["choices"]]
    assert "".join(choice["delta"].get("content", "") for choice in choices) == words
    calls = [call for choice in choices for call in choice["delta"].get("tool_calls", ())]
    assert [call["function"]["name"] for call in calls] == names
    assert [call["index"] for call in calls] == list(range(len(names)))
    assert all(isinstance(json.loads(call["function"]["arguments"]), dict) for call in calls)
    assert choices[-1]["finish_reason"] == reason
