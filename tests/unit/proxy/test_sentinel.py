"""What the sentinel says of an answer, and when it is refused for it."""

import pytest

from blazar.errors import SchemaViolated
from blazar.proxy.exchange import Answer, ToolCall
from blazar.proxy.schemas import Schema
from blazar.proxy.sentinel import KEPT, LONGEST, UNCHECKED, VIOLATED, Sentinel
from blazar.proxy.structured import Constraint

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 3}}, "required": ["n"]}


def sentinel(enforces=False, schema=SCHEMA, tool=""):
    constraint = Constraint("json_schema" if schema else "json_object", schema, "format", tool)
    return Sentinel(constraint, Schema(schema, "format", lambda: None) if schema else None, enforces)


def answer(text="", *calls, reason="stop"):
    return Answer(text=text, finish_reason=reason, tool_calls=[ToolCall("", name, given) for name, given in calls])


@pytest.mark.parametrize(("given", "verdict"), [
    (answer('{"n": 3}'), KEPT), (answer(' {"n":3}\n'), KEPT), (answer('{"n": 2}'), VIOLATED), (answer("{}"), VIOLATED),
    (answer('{"n": 3'), VIOLATED), (answer(""), VIOLATED), (answer("[3]"), VIOLATED), (answer('{"n":3} and'), VIOLATED),
    (answer("x", ("f", "{}")), KEPT), (answer('{"n": 3}', reason="length"), KEPT),
    (answer("1" * (LONGEST + 1)), UNCHECKED)])
def test_by_a_schema(given, verdict):
    watcher = sentinel()
    watcher.judge(given)
    assert watcher.verdict == verdict


@pytest.mark.parametrize(("text", "verdict"), [("{}", KEPT), ("[]", VIOLATED), ("7", VIOLATED), ("null", VIOLATED)])
def test_any_object(text, verdict):
    watcher = sentinel(schema=None)
    watcher.judge(answer(text))
    assert watcher.verdict == verdict


@pytest.mark.parametrize(("calls", "words"), [
    ([], "must be one call of 'f', and has none"), ([("g", '{"n":3}')], "has calls of 'g'"),
    ([("f", '{"n":3}')] * 2, "has calls of 'f', 'f'"), ([("f", '{"n":1}')], "at `n`"), ([("f", "{")], "not JSON")])
def test_a_call_that_must_be_made(calls, words):
    with pytest.raises(SchemaViolated, match=words):
        sentinel(enforces=True, tool="f").judge(answer("", *calls))
    watcher = sentinel(enforces=True, tool="f")
    watcher.judge(answer("", ("f", '{"n":3}')))
    assert watcher.verdict == KEPT


def test_a_refusal_says_where_what_and_what_to_do():
    with pytest.raises(SchemaViolated) as raised:
        sentinel(enforces=True).judge(answer('{"n": 2}'))
    assert "at `n`: 2 is less than the minimum of 3" in str(raised.value)
    assert "X-Blazar-Enforce: off" in str(raised.value) and raised.value.status == 422
    with pytest.raises(SchemaViolated, match="cut off at its limit of tokens"):
        sentinel(enforces=True).judge(answer('{"n": ', reason="length"))


def test_the_worst_of_several_choices_counts_until_another_attempt_begins():
    watcher = sentinel()
    for text, verdict in (('{"n": 3}', KEPT), ("1" * (LONGEST + 1), UNCHECKED), ("{}", VIOLATED),
                          ('{"n": 3}', VIOLATED)):
        watcher.judge(answer(text))
        assert watcher.verdict == verdict
    watcher.begin()
    assert watcher.verdict == ""


def test_what_cannot_be_told_is_not_refused():
    watcher = sentinel(enforces=True)
    watcher.judge(answer("1" * (LONGEST + 1)))
    assert watcher.verdict == UNCHECKED
