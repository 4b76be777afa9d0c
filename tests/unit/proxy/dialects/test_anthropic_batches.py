import json

import pytest

from blazar.errors import MessageBatchTooLarge, RequestRefused
from blazar.proxy.dialects import anthropic_batches
from blazar.proxy.dialects.anthropic_batches import batch, page, requests, result_line

ROW = {"id": "msgbatch_1", "requests": 3, "created_at": 0, "expires_at": 86400, "cancelled_at": None, "ended_at": None,
       "counts": {"succeeded": 1}}
ONE = {"custom_id": "a", "params": {"model": "m"}}


def test_requests():
    given = {"requests": [ONE, {"custom_id": "b-_1", "params": {"x": "\u00e9"}}]}
    assert requests(given) == [("a", '{"model":"m"}'), ("b-_1", '{"x":"\u00e9"}')]


@pytest.mark.parametrize(("given", "why"), [
    (None, "at least one request"), ([], "at least one request"), ({}, "a list of objects"), ([5], "an object"),
    ([{**ONE, "custom_id": 5}], r"`requests\[0\].custom_id` must be 1 to 64 letters"),
    ([{**ONE, "custom_id": ""}], "1 to 64"), ([{**ONE, "custom_id": "x" * 65}], "1 to 64"),
    ([{**ONE, "custom_id": "a b"}], "1 to 64"), ([{"params": {}}], "1 to 64"),
    ([ONE, ONE], r"`requests\[1\].custom_id` must be another one"),
    ([{"custom_id": "a"}], r"`requests\[0\].params` must be an object"), ([{**ONE, "params": []}], "params")])
def test_refusals(given, why):
    with pytest.raises(RequestRefused, match=why):
        requests({"requests": given})


def test_limits():
    most = [{"custom_id": str(number), "params": {}} for number in range(anthropic_batches.MOST)]
    assert len(requests({"requests": most})) == anthropic_batches.MOST
    with pytest.raises(MessageBatchTooLarge, match=r"10001 requests.*10000 requests with 10"):
        requests({"requests": [*most, {"custom_id": "x", "params": {}}]})
    whole = {"custom_id": "a", "params": {"x": "y" * (anthropic_batches.MOST_BYTES - 8)}}
    assert len(requests({"requests": [whole]})) == 1
    with pytest.raises(MessageBatchTooLarge):
        requests({"requests": [whole, {"custom_id": "b", "params": {}}]})


def test_the_counts_are_told_at_the_end():
    told = batch(ROW, "URL")
    assert told["processing_status"] == "in_progress" and told["results_url"] is None and told["ended_at"] is None
    assert told["request_counts"] == {"processing": 3, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
    ended = batch({**ROW, "ended_at": 60, "cancelled_at": 59, "counts": {"succeeded": 1, "canceled": 2}}, "URL")
    assert (ended["processing_status"], ended["results_url"]) == ("ended", "URL")
    assert ended["request_counts"] == {"processing": 0, "succeeded": 1, "errored": 0, "canceled": 2, "expired": 0}
    assert (ended["ended_at"], ended["cancel_initiated_at"]) == ("1970-01-01T00:01:00.000000Z",
                                                                 "1970-01-01T00:00:59.000000Z")


@pytest.mark.parametrize(("outcome", "body", "result"), [
    ("succeeded", '{"id":"msg"}', {"type": "succeeded", "message": {"id": "msg"}}),
    ("errored", '{"type":"error"}', {"type": "errored", "error": {"type": "error"}}),
    ("canceled", "", {"type": "canceled"}), ("expired", "", {"type": "expired"})])
def test_a_result_is_one_line(outcome, body, result):
    line = result_line({"custom_id": "a", "outcome": outcome, "body": body})
    assert line.endswith(b"\n") and b"\n" not in line[:-1] and json.loads(line) == {"custom_id": "a", "result": result}


def test_pages_name_their_ends():
    assert json.loads(page([{"id": "a"}, {"id": "b"}], True)) == {
        "data": [{"id": "a"}, {"id": "b"}], "has_more": True, "first_id": "a", "last_id": "b"}
    assert json.loads(page([], False)) == {"data": [], "has_more": False, "first_id": None, "last_id": None}
