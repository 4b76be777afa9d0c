"""What the text of a forced tool becomes, streamed and whole."""

import pytest

from blazar.proxy.reshaping import Reshaping
from tests.support.wire import call, chunk

WRITTEN = '{"name": "f", "arguments": {"n": 1}}'


def reshaping(*tools):
    return Reshaping(tools, None, (), new_id=lambda: "new")


def streamed(tools, *chunks):
    """Text, calls and reason of what a client sees."""
    deltas = [event["choices"][0] for event in reshaping(*tools).events(iter(chunks))]
    calls = [made for choice in deltas for made in choice["delta"].get("tool_calls", ())]
    return ("".join(choice["delta"].get("content") or "" for choice in deltas),
            [(made.get("id"), made["function"].get("name")) for made in calls][:1],
            "".join(made["function"]["arguments"] for made in calls), deltas[-1]["finish_reason"])


def whole(tools, text, reason="stop"):
    answer = {"choices": [{"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": reason}]}
    [choice] = reshaping(*tools).whole(answer)["choices"]
    calls = choice["message"].get("tool_calls", [])
    return (choice["message"]["content"] or "", [(made["id"], made["function"]["name"]) for made in calls],
            "".join(made["function"]["arguments"] for made in calls), choice["finish_reason"])


@pytest.mark.parametrize(("tools", "text", "found"), [
    (["f"], '\n {"n": 1}', ("", [("new", "f")], '{"n": 1}', "tool_calls")),
    (["g", "f"], WRITTEN, ("", [("new", "f")], '{"n": 1}', "tool_calls")),
    (["g", "f"], "Well: " + WRITTEN, ("Well: " + WRITTEN, [], "", "stop")),
    (["g", "f"], WRITTEN[:9], (WRITTEN[:9], [], "", "stop")), (["f"], " \n", ("", [], "", "stop"))])
def test_text_becomes_the_call(tools, text, found):
    assert whole(tools, text) == found
    assert streamed(tools, *map(chunk, text), chunk(reason="stop")) == found
    assert streamed(tools, chunk(text, reason="stop")) == found


def test_no_reason_for_the_end():
    assert streamed(["g", "f"], chunk(WRITTEN[:9]))[0] == WRITTEN[:9]


def test_what_was_cut_off_says_so():
    assert whole(["f"], '{"n":', "length") == ("", [("new", "f")], '{"n":', "length")
    assert streamed(["f"], chunk('{"n":'), chunk(reason="length")) == ("", [("new", "f")], '{"n":', "length")


def test_a_call_of_the_childs_own_stays():
    own = chunk(tool_calls=[call(0, "{}", "own", "g")])
    found = streamed(["g", "f"], chunk("\n"), own, chunk(reason="tool_calls"))
    assert found == ("", [("own", "g")], "{}", "tool_calls")
    made = {"id": "own", "type": "function", "function": {"name": "g", "arguments": "{}"}}
    answer = {"choices": [{"message": {"content": "so", "tool_calls": [made]}, "finish_reason": "tool_calls"}]}
    assert reshaping("g", "f").whole(answer)["choices"][0]["message"] == {"content": "so", "tool_calls": [made]}


def test_each_choice_has_a_call_of_its_own():
    def of(index, text, reason=None):
        return {"choices": [{"index": index, "delta": {"content": text}, "finish_reason": reason}]}
    events = list(reshaping("f").events(iter([of(0, "{"), of(1, "{"), of(0, "}", "stop"), of(1, "}", "length")])))
    calls = [event["choices"][0]["delta"]["tool_calls"][0] for event in events]
    assert [made.get("id") for made in calls] == ["new", "new", None, None]
    assert [event["choices"][0]["finish_reason"] for event in events[2:]] == ["tool_calls", "length"]
