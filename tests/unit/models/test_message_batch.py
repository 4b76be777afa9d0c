import pytest

from blazar.control import KEPT_DAYS
from blazar.errors import MessageBatchesFull
from blazar.models.base import close_database, open_database
from blazar.models.message_batch import LIFETIME, BatchRequest, MessageBatch
from blazar.models.migrate import migrate

NOW = 1_000_000.5


@pytest.fixture(autouse=True)
def database(tmp_path):
    migrate(tmp_path / "blazar.db")
    open_database(tmp_path / "blazar.db")
    yield
    close_database()


def put(id, *custom_ids, owner="ann", now=NOW, **limits):
    return MessageBatch.put(owner, id, [(name, f'{{"n":"{name}"}}') for name in custom_ids or ("a",)], now, **limits)


def answer_next(outcome="succeeded", body="{}", now=NOW, resting=()):
    row = MessageBatch.next(now, resting)
    assert MessageBatch.answer(row["batch"], row["position"], outcome, body, now)
    return row["body"]


def results(id, owner="ann", after=-1, **more):
    found = MessageBatch.results(owner, id, after, **more)
    return found and ([(row["custom_id"], row["outcome"], row["body"]) for row in found[0]], found[1])


def test_requests_are_answered_in_their_order_and_the_batch_ends_with_the_last():
    row = put("b", "x", "y")
    assert (row["requests"], row["ended_at"], row["counts"]) == (2, None, {})
    assert answer_next(body="1") == '{"n":"x"}' and results("b") is None
    assert answer_next("errored", "2", NOW + 9) == '{"n":"y"}' and MessageBatch.next(NOW) is None
    row = MessageBatch.find("ann", "b", NOW)
    assert (row["ended_at"], row["counts"]) == (int(NOW + 9), {"succeeded": 1, "errored": 1})
    assert results("b") == ([("x", "succeeded", "1"), ("y", "errored", "2")], False)


def test_a_request_is_answered_once():
    put("b", "x")
    row = MessageBatch.next(NOW)
    assert MessageBatch.next(NOW) == row, "until it is answered it is the next"
    assert MessageBatch.answer(row["batch"], row["position"], "succeeded", "1", NOW)
    assert not MessageBatch.answer(row["batch"], row["position"], "errored", "2", NOW)
    assert results("b")[0] == [("x", "succeeded", "1")]


def test_an_owner_sees_its_own_alone():
    put("b")
    assert MessageBatch.find("bob", "b", NOW) is None and MessageBatch.cancel("bob", "b", NOW) is None
    assert MessageBatch.forget("bob", "b") is None and results("b", "bob") is None
    assert MessageBatch.page("bob", NOW, None, None, 5) == ([], False)
    assert MessageBatch.find("ann", "b", NOW)["ended_at"] is None


def test_owners_that_rest_are_passed_over():
    put("b")
    put("c", "z", owner="bob")
    assert MessageBatch.next(NOW, ["ann"])["owner"] == "bob" and MessageBatch.next(NOW, ["ann", "bob"]) is None


def test_a_cancelled_batch_ends_and_keeps_what_it_has():
    put("b", "x", "y", "z")
    answer_next()
    under_way = MessageBatch.next(NOW)
    row = MessageBatch.cancel("ann", "b", NOW + 1)
    assert (row["ended_at"], row["cancelled_at"]) == (int(NOW + 1), int(NOW + 1))
    assert row["counts"] == {"succeeded": 1, "canceled": 2}
    assert not MessageBatch.answer(under_way["batch"], under_way["position"], "succeeded", "late", NOW)
    assert [outcome for _, outcome, _ in results("b")[0]] == ["succeeded", "canceled", "canceled"]
    assert MessageBatch.cancel("ann", "b", NOW + 7)["cancelled_at"] == int(NOW + 1), "one that has ended stays"


def test_what_has_had_its_time_expires():
    put("b", "x", "y")
    answer_next()
    assert MessageBatch.next(NOW + LIFETIME - 2) is not None and MessageBatch.next(NOW + LIFETIME) is None
    assert MessageBatch.find("ann", "b", NOW + LIFETIME)["counts"] == {"succeeded": 1, "expired": 1}


def test_only_one_that_has_ended_is_forgotten():
    put("b")
    assert MessageBatch.forget("ann", "b")["ended_at"] is None and MessageBatch.find("ann", "b", NOW)
    answer_next()
    assert MessageBatch.forget("ann", "b")["id"] == "b" and MessageBatch.find("ann", "b", NOW) is None
    assert BatchRequest.select().count() == 0


def test_long_after_their_end_they_go():
    put("b")
    answer_next()
    put("c", now=NOW + KEPT_DAYS * 86400)
    assert MessageBatch.find("ann", "b", NOW) is None and BatchRequest.select().count() == 1


@pytest.mark.parametrize(("query", "expected", "more"), [
    ((None, None, 9), "edcba", False), ((None, None, 2), "ed", True), (("d", None, 2), "cb", True),
    (("b", None, 2), "a", False), ((None, "b", 2), "dc", True), ((None, "d", 9), "e", False),
    (("nobody", None, 9), "", False), ((None, "nobody", 9), "", False)])
def test_pages(query, expected, more):
    for id in "abcde":
        put(id)
    rows, following = MessageBatch.page("ann", NOW, *query)
    assert ("".join(row["id"] for row in rows), following) == (expected, more)


def test_results_come_in_pages():
    put("b", *"xyz")
    for body in ("1" * 30, "2" * 30, "3"):
        answer_next(body=body)
    first = MessageBatch.results("ann", "b", -1, page_bytes=40)
    assert [row["position"] for row in first[0]] == [0] and first[1]
    assert results("b", after=0, page_bytes=40) == ([("y", "succeeded", "2" * 30), ("z", "succeeded", "3")], False)
    assert results("b", after=2) == ([], False)


def test_limits():
    put("b", most=2)
    put("c", most=2)
    with pytest.raises(MessageBatchesFull, match=r"3 message batches.*may have 2"):
        put("d", most=2)
    put("d", owner="bob", most=2)
    with pytest.raises(MessageBatchesFull, match="delete some"):
        put("e", most_bytes=26)
    put("f", most_bytes=27)
