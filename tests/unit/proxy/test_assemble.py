"""Adding up a child's chunks."""

import random

import pytest

from blazar.proxy.assemble import Assembler, Piece, arguments_of
from blazar.proxy.exchange import ToolCall, Usage
from blazar.proxy.meter import MOST
from tests.support.wire import call, chunk, counts


def assemble(*chunks):
    assembler = Assembler()
    for item in chunks:
        assembler.feed(item)
    return assembler.finish()


def test_text_thinking_and_reason():
    answer = assemble(chunk(role="assistant", content=None), chunk(reasoning_content="a"),
                      chunk("x", reasoning_content="b"), chunk("y"), chunk(reason="length"))
    assert (answer.text, answer.thinking, answer.finish_reason) == ("xy", "ab", "length")


def test_plain_completion():
    answer = assemble({"object": "text_completion", "choices": [{"index": 0, "text": "a"}]},
                      {"choices": [{"index": 0, "text": "b", "finish_reason": "stop"}]})
    assert (answer.text, answer.finish_reason) == ("ab", "stop")


def test_only_the_first_choice_counts():
    other = {"choices": [{"index": 1, "delta": {"content": "no"}}]}
    assert assemble(chunk("a"), other, chunk("b")).text == "ab"


@pytest.mark.parametrize("seed", range(20))
def test_interleaved_calls_come_apart_again(seed):
    """FC-06: pieces of several calls, in any order that keeps each call's own."""
    chance = random.Random(seed)
    wanted = [("a", "f", '{"x":1}'), ("b", "g", '{"y":[2,3]}'), ("c", "h", "")]
    queues = [[call(index, text[:1], id, name)] + [call(index, letter) for letter in text[1:]]
              for index, (id, name, text) in enumerate(wanted)]
    deltas = [queues[index].pop(0) for index in range(3)]
    while any(queues):
        deltas.append(chance.choice([queue for queue in queues if queue]).pop(0))
    answer = assemble(*(chunk(tool_calls=[delta]) for delta in deltas), chunk(reason="tool_calls"))
    assert [(found.id, found.name, found.arguments) for found in answer.tool_calls] == wanted


def test_calls_without_an_index_go_by_id_and_then_continue():
    deltas = [{"id": "a", "function": {"name": "f", "arguments": "{"}}, {"function": {"arguments": "}"}},
              {"id": "b", "function": {"name": "g", "arguments": "{}"}}]
    answer = assemble(*(chunk(tool_calls=[delta]) for delta in deltas))
    assert [(found.name, found.arguments) for found in answer.tool_calls] == [("f", "{}"), ("g", "{}")]


@pytest.mark.parametrize(("said", "arguments", "reason"), [
    ("stop", "{}", "tool_calls"), ("tool_calls", "{}", "tool_calls"), ("function_call", "{}", "tool_calls"),
    ("length", '{"a":1}', "tool_calls"), ("length", '{"a":', "length"), (None, "{}", "tool_calls")])
def test_a_turn_with_a_call_ends_as_one(said, arguments, reason):
    """FC-08; only a call that was cut off by the limit is no call."""
    answer = assemble(chunk(tool_calls=[call(0, arguments, "a", "f")]), chunk(reason=said))
    assert answer.finish_reason == reason


@pytest.mark.parametrize(("said", "reason"), [("stop", "stop"), ("tool_calls", "stop"), ("length", "length"),
                                              (None, "stop"), (7, "stop")])
def test_a_turn_without_a_call(said, reason):
    assert assemble(chunk("a"), chunk(reason=said)).finish_reason == reason


def test_usage_of_llamacpp():
    answer = assemble(chunk("a"), {"choices": [], "usage": {"prompt_tokens": 105, "completion_tokens": 20,
                      "prompt_tokens_details": {"cached_tokens": 5}}, "timings": {"cache_n": 5, "prompt_n": 100,
                      "prompt_ms": 369.531, "predicted_n": 20, "predicted_ms": 1922.723}})
    assert answer.usage == Usage(105, 20, 5, 369_531_000, 1_922_723_000)


def test_usage_without_one_of_its_two_forms():
    timings = {key: value for key, value in counts().items() if key != "usage"}
    assert assemble(timings).usage == Usage(7, 3, 0, 1_500_000, 20_250_000)
    timings["timings"]["cache_n"] = 5
    assert assemble(timings).usage.prompt_tokens == 12
    assert assemble({"choices": None, "usage": {"prompt_tokens": 4, "completion_tokens": 2}}).usage == Usage(4, 2)


@pytest.mark.parametrize("field", ["stop_reason", "matched_stop", "stopping_word"])
def test_the_stop_text_is_taken_only_when_it_is_text(field):
    def ending(value):
        return {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop", field: value}]}
    assert assemble(chunk("a"), ending("STOP")).stop_text == "STOP"
    assert [assemble(ending(value)).stop_text for value in (7, None, "", ["x"])] == [None] * 4


@pytest.mark.parametrize(("told", "found"), [({"stopping_word": "STOP"}, "STOP"), ({"stopping_word": ""}, None),
                                             (None, None), ("x", None)])
def test_what_llamacpp_says_when_it_is_verbose(told, found):
    assert assemble(chunk("a"), {**chunk(reason="stop"), "__verbose": told}, counts()).stop_text == found


@pytest.mark.parametrize("odd", [
    {}, {"choices": []}, {"choices": None}, {"choices": [None]}, {"choices": [{"index": 0, "delta": None}]},
    chunk(7), chunk(tool_calls=[None]), chunk(tool_calls="x"), {"usage": [], "timings": "x"},
    chunk(tool_calls=[{"function": None}]), {"usage": {"prompt_tokens": None}}])
def test_odd_chunks_do_no_harm(odd):
    assert assemble(chunk("a"), odd, chunk("b")).text == "ab"


@pytest.mark.parametrize(("text", "value"), [("", {}), (" ", {}), ("{}", {}), ('{"a":1}', {"a": 1}), ("{city:", None),
                                             ("[1]", None), ("NaN", None)])
def test_arguments(text, value):
    assert arguments_of(ToolCall("", "f", text)) == value


def test_a_piece_is_what_its_chunk_added():
    assembler = Assembler()
    assert assembler.feed(chunk("a", reasoning_content="t")) == Piece("a", "t", False)
    assert assembler.feed(chunk(tool_calls=[call(0, "{", "i", "f")])) == Piece("", "", True)
    assert assembler.feed(chunk(reason="stop")) == Piece()


def test_a_stop_ends_the_text_across_chunks():
    assembler = Assembler(["STOP"])
    assert [assembler.feed(chunk(words)).text for words in ("A", " STO", "P B")] == ["A", " ", ""]
    assert assembler.stopped
    answer = assembler.finish()
    assert (answer.text, answer.stop_text, answer.finish_reason) == ("A ", "STOP", "stop")
    assert answer.usage.completion_tokens == 3


def test_what_was_held_back_belongs_to_the_text():
    assembler = Assembler(["STOP"])
    assembler.feed(chunk("A STO"))
    assert not assembler.stopped and assembler.rest() == "STO"
    assembler.feed(counts(completion=9))
    answer = assembler.finish()
    assert (answer.text, answer.stop_text, answer.usage.completion_tokens) == ("A STO", None, 9)


def test_text_held_back_comes_before_a_call():
    assembler = Assembler(["STOP"])
    assembler.feed(chunk("ST"))
    piece = assembler.feed(chunk(tool_calls=[call(0, "{}", "a", "f")]))
    assert (piece.text, piece.calls) == ("ST", True)


@pytest.mark.parametrize(("told", "wanted"), [(1.7e308, MOST), (2**64, MOST), (-1.7e308, 0), (-1, 0), ("7", 0),
                                              (1.4, 1)])
def test_whatever_number_a_child_counts_clients_can_read_it(told, wanted):
    assembler = Assembler()
    assembler.feed({"timings": {"prompt_n": told, "prompt_ms": told, "predicted_n": told, "predicted_ms": told}})
    usage = assembler.finish().usage
    assert usage.prompt_tokens == usage.completion_tokens == wanted and 0 <= usage.prompt_ns <= MOST
