"""The events of a response, checked as a grammar, and the buffered answer beside them."""

import json
import random
import re

import pytest

from blazar.errors import ChildFailed, ResponseCancelled
from blazar.proxy.dialects.responses import random_id
from tests.support.wire import (
    buffered,
    call,
    chunk,
    counts,
    dialects,
    responses_events,
    responses_items,
    sse,
    streamed,
)


def exchange(**fields):
    body = json.dumps({"model": "M", "input": "hi", **fields}).encode()
    return dialects()["responses"].parse("create", body, {}, "r1")


def both(*chunks, **fields):
    """The response, which must be the same streamed and buffered, and what its items' events build."""
    data = sse(chunks)
    events = responses_events(streamed(exchange(**fields), data))
    whole = json.loads(buffered(exchange(**fields), data))
    assert unnumbered(events[-1]["response"]) == unnumbered(whole)
    assert responses_items(events) == events[-1]["response"]["output"]
    return whole


def unnumbered(response):
    """Without the numbers of new ids: a call that has no name yet gets its id later in a stream."""
    return re.sub(r"_new\d+", "", json.dumps(response))


def shown(response):
    """Its items, without ids."""
    return [(item["type"], item["status"], item.get("arguments") or item["content"][0]["text"])
            for item in response["output"]]


def test_thinking_text_and_calls_each_have_their_item():
    response = both(chunk(reasoning_content="a"), chunk("x", reasoning_content="b"), chunk("y"),
                    chunk(tool_calls=[call(0, '{"x":', "c1", "f")]), chunk(tool_calls=[call(0, "1}")]),
                    chunk(reason="tool_calls"), counts())
    assert shown(response) == [("reasoning", "completed", "ab"), ("message", "completed", "xy"),
                               ("function_call", "completed", '{"x":1}')]
    assert response["output"][2] | {"id": 0} == {"id": 0, "type": "function_call", "status": "completed",
                                                 "call_id": "c1", "name": "f", "arguments": '{"x":1}'}
    assert response["usage"] == {
        "input_tokens": 7, "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0}, "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": 10}


def test_a_call_without_arguments_has_an_empty_object_and_one_without_an_id_a_new_one():
    response = both(chunk(tool_calls=[{"function": {"name": "f", "arguments": ""}}]), chunk(reason="tool_calls"))
    assert shown(response) == [("function_call", "completed", "{}")]
    assert response["output"][0]["call_id"].startswith("call_new")


@pytest.mark.parametrize(("arguments", "words"), [
    (['{"inp', 'ut":"a\\nb"}'], "a\nb"), (['{"input":""}'], ""), (["*** Begin"], "*** Begin"), (["5"], "5"), ([""], ""),
    (['{"text":"a"}'], '{"text":"a"}')])
def test_a_call_of_a_custom_tool_has_its_input(arguments, words):
    """What is not the object that was asked for is what the model wanted to say."""
    first, *more = arguments
    response = both(chunk(tool_calls=[call(0, first, "c1", "patch")]),
                    *(chunk(tool_calls=[call(0, piece)]) for piece in more), chunk(reason="tool_calls"),
                    tools=[{"type": "custom", "name": "patch"}])
    assert response["output"][0] | {"id": 0} == {"id": 0, "type": "custom_tool_call", "status": "completed",
                                                 "call_id": "c1", "name": "patch", "input": words}


def test_a_call_into_a_namespace_names_it():
    tools = [{"type": "namespace", "name": "mcp", "description": "d", "tools": [{"type": "function", "name": "f"}]}]
    response = both(chunk(tool_calls=[call(0, "{}", "c1", "mcp__f")]), chunk(tool_calls=[call(1, "{}", "c2", "f")]),
                    chunk(reason="tool_calls"), tools=tools)
    assert [(item["name"], item.get("namespace")) for item in response["output"]] == [("f", "mcp"), ("f", None)]


def test_what_comes_after_a_call_is_an_item_of_its_own():
    response = both(chunk("x"), chunk(tool_calls=[call(0, "{", "c", "f")]), chunk("y"),
                    chunk(tool_calls=[call(0, "}")]), chunk("z"), chunk(reason="tool_calls"))
    assert shown(response) == [("message", "completed", "x"), ("function_call", "completed", "{}"),
                               ("message", "completed", "yz")]


@pytest.mark.parametrize("chunks", [[], [chunk("")], [chunk(reason="stop")]])
def test_an_empty_answer_has_an_empty_message(chunks):
    assert shown(both(*chunks)) == [("message", "completed", "")]


@pytest.mark.parametrize(("reason", "told"), [("length", "max_output_tokens"), ("content_filter", "content_filter")])
def test_an_answer_that_was_cut_is_incomplete(reason, told):
    response = both(chunk(reasoning_content="a"), chunk("x"), chunk(reason=reason))
    assert (response["status"], response["incomplete_details"]) == ("incomplete", {"reason": told})
    assert response["completed_at"] is None
    assert [item["status"] for item in response["output"]] == ["completed", "incomplete"]


@pytest.mark.parametrize("seed", range(40))
def test_streamed_and_buffered_are_the_same_whatever_comes_in_whatever_order(seed):
    chance = random.Random(seed)
    pieces = [chunk("x"), chunk("yz"), chunk(""), chunk(reasoning_content="t"), chunk("w", reasoning_content="u"),
              *(chunk(tool_calls=[call(index, '{"a', f"c{index}", "f")]) for index in range(3)),
              *(chunk(tool_calls=[call(index, '":1}')]) for index in range(3)), counts(),
              chunk(reason=chance.choice(["stop", "length"]))]
    both(*chance.choices(pieces, k=chance.randrange(12)))


def test_the_beginning_tells_what_was_asked():
    asked = {"instructions": "I", "max_output_tokens": 9, "metadata": {"a": "b"}, "temperature": 0.5, "top_p": 0.9,
             "previous_response_id": "resp_0", "reasoning": {"effort": "low"}, "parallel_tool_calls": False,
             "text": {"format": {"type": "json_object"}}, "user": "u", "tool_choice": "auto",
             "tools": [{"type": "function", "name": "f", "parameters": {}}]}
    response = both(chunk("x"), **asked)
    assert {name: response[name] for name in asked} == asked | {"reasoning": {"effort": "low", "summary": None}}
    plain = both(chunk("x"))
    assert (plain["text"], plain["tools"], plain["tool_choice"], plain["truncation"]) == (
        {"format": {"type": "text"}}, [], "auto", "disabled")


def test_whether_it_is_kept_is_known_before_the_last_event():
    kept = []
    for answer in (True, False):
        one = exchange()
        one.keep = lambda response, answer=answer: kept.append(response) or answer
        assert json.loads(buffered(one, sse([chunk("x")])))["store"] is answer
        one = exchange()
        one.keep = lambda response, answer=answer: kept.append(response) or answer
        assert responses_events(streamed(one, sse([chunk("x")])))[-1]["response"]["store"] is answer
    assert len(kept) == 4 and all(response["store"] and response["output"] for response in kept)
    assert both(chunk("x"), store=False)["store"] is False


@pytest.mark.parametrize(("error", "status", "told"), [
    (ChildFailed("died"), "failed", {"code": "server_error", "message": "died"}),
    (OSError("secret"), "failed", {"code": "server_error", "message": "something went wrong here; the log says what"}),
    (ResponseCancelled(), "cancelled", None)])
def test_an_error_ends_it_with_what_there_was(error, status, told):
    one, kept = exchange(), []
    one.keep = lambda response: kept.append(response) or True
    translator = one.dialect.translator(one)
    data = b"".join([translator.feed(chunk(reasoning_content="t")), translator.feed(chunk("x")),
                     translator.feed(chunk(tool_calls=[call(0, '{"a', "c", "f")])), translator.fail(error)])
    events = responses_events(data)
    response = events[-1]["response"]
    assert (events[-1]["type"], response["status"], response["error"]) == ("response.failed", status, told)
    assert [(item["type"], item["status"]) for item in response["output"]] == [
        ("reasoning", "completed"), ("message", "completed"), ("function_call", "incomplete")]
    assert kept == [response]


def test_ids_are_long_and_differ():
    assert len({random_id("resp") for _ in range(100)}) == 100 and len(random_id("resp")) == 37
