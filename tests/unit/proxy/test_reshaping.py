"""A child's answer on its way to the dialect, with the sentinel looking at it."""

import pytest

from blazar.errors import SchemaViolated
from blazar.proxy.reshaping import Reshaping
from blazar.proxy.schemas import Schema
from blazar.proxy.sentinel import KEPT, VIOLATED, Sentinel
from blazar.proxy.structured import Constraint
from tests.support.wire import chunk, counts

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
GOOD, BAD = '{"n":1}', '{"n":"x"}'


def reshaping(enforces=False, stops=()):
    watcher = Sentinel(Constraint("json_schema", SCHEMA, "f"), Schema(SCHEMA, "f", lambda: None), enforces)
    return Reshaping("", watcher, stops)


def choice(index, text, reason=None):
    return {"choices": [{"index": index, "delta": {"content": text}, "finish_reason": reason}]}


@pytest.mark.parametrize("pieces", [[GOOD], list(GOOD), [GOOD[:3], "", GOOD[3:]]])
def test_events_pass_as_they_are_and_are_judged_at_their_end(pieces):
    shaped = reshaping(enforces=True)
    sent = [chunk(reasoning_content="no {"), *map(chunk, pieces), chunk(reason="stop"), counts()]
    assert list(shaped.events(iter(sent))) == sent and shaped.sentinel.verdict == KEPT


def test_nothing_of_the_end_goes_out_before_it_is_judged():
    shaped, got = reshaping(enforces=True), []
    with pytest.raises(SchemaViolated):
        got.extend(shaped.events(iter([chunk(BAD), chunk(reason="stop")])))
    assert shaped.sentinel.verdict == VIOLATED


def test_text_counts_up_to_the_stop_of_the_client():
    """Who wants the answer asks for no event after that, so it is judged there."""
    shaped = reshaping(stops=("END",))
    events = shaped.events(iter([chunk(GOOD), chunk("EN"), chunk("D and more"), chunk("never")]))
    assert [next(events) for _ in range(3)] and shaped.sentinel.verdict == KEPT


@pytest.mark.parametrize(("texts", "verdict"), [((GOOD, GOOD), KEPT), ((GOOD, BAD), VIOLATED), ((BAD, GOOD), VIOLATED)])
def test_every_choice_counts(texts, verdict):
    shaped = reshaping()
    list(shaped.events(iter([choice(0, texts[0][:2]), choice(1, texts[1]), choice(0, texts[0][2:], "stop")])))
    assert shaped.sentinel.verdict == verdict
    whole = {"choices": [{"index": index, "message": {"content": text}, "finish_reason": "stop"}
                         for index, text in enumerate(texts)]}
    assert shaped.whole(whole) is whole and shaped.sentinel.verdict == verdict
    shaped.whole({"choices": [{"text": texts[1]}]})
    assert shaped.sentinel.verdict == (KEPT if texts[1] == GOOD else VIOLATED), "another attempt is judged by itself"


def test_odd_answers_break_nothing():
    for odd in ({}, {"choices": None}, {"choices": ["x", {"message": None}]},
                {"choices": [{"message": {"content": 7}}]},
                {"choices": [{"message": {"tool_calls": [7, {"function": 7}]}, "finish_reason": 7}]}):
        assert reshaping().whole(odd) is odd
        assert list(reshaping().events(iter([odd]))) == [odd]
