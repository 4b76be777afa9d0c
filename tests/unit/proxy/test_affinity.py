import json
from collections import Counter

import pytest

from blazar.proxy.affinity import order, prefix_of

ASK = {"role": "user", "content": "Who was Ada Lovelace?"}
SYSTEM = {"role": "system", "content": "Be brief."}


def turns(*messages, **fields):
    return {"messages": list(messages), **fields}


@pytest.mark.parametrize("grown", [
    turns(SYSTEM, ASK, {"role": "assistant", "content": "A mathematician."}, {"role": "user", "content": "When?"}),
    turns(SYSTEM, ASK, temperature=0.5, stream=True)])
def test_a_conversation_keeps_its_beginning(grown):
    assert prefix_of(grown, b"") == prefix_of(turns(SYSTEM, ASK), b"")


@pytest.mark.parametrize("other", [turns(ASK), turns(SYSTEM, {**ASK, "content": "Who was Grace Hopper?"}),
                                   turns(SYSTEM, ASK, system="Be long."), turns(SYSTEM, ASK, tools=[{"name": "x"}])])
def test_other_conversations_have_others(other):
    assert prefix_of(other, b"") != prefix_of(turns(SYSTEM, ASK), b"")


@pytest.mark.parametrize("payload", [{"prompt": "Once upon a time", "n": 1}, {"input": ["a", "b"]}])
def test_prompts_and_inputs(payload):
    assert prefix_of(payload, b"") == prefix_of({**payload, "stream": True}, b"")
    assert prefix_of(payload, b"") != prefix_of({"prompt": "Else"}, b"")


def test_a_large_body_counts_by_its_first_bytes():
    first = json.dumps(turns(SYSTEM, {**ASK, "content": "x" * 5000}, model="m")).encode()
    grown = json.dumps({"stream": True, **turns(SYSTEM, {**ASK, "content": "x" * 5000}, ASK)}).encode()
    assert prefix_of({}, first) == prefix_of({}, grown) != prefix_of({}, b"{}")


@pytest.mark.parametrize("payload", [{}, turns(), turns(5), {"messages": "x"}, {"prompt": ["\ud800", None]}])
def test_any_body_has_an_order(payload):
    assert sorted(order(prefix_of(payload, b"\xff\x00"), 3)) == [1, 2, 3]


def test_conversations_are_spread_and_few_move_when_a_child_is_added():
    names = [f"conversation {number}" for number in range(3000)]
    firsts = Counter(order(name, 3)[0] for name in names)
    assert all(850 < count < 1150 for count in firsts.values())
    moved = sum(order(name, 3)[0] != order(name, 4)[0] for name in names)
    assert 600 < moved < 900
    assert all(order(name, 4)[0] == 4 for name in names if order(name, 3)[0] != order(name, 4)[0])
