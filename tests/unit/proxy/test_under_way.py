"""What is told of the requests under way, and which of them are cancelled."""

import pytest

from blazar.errors import RequestCancelled
from blazar.proxy.auth import ApiKey
from blazar.proxy.dialects.openai import OpenAIDialect
from blazar.proxy.ledger import Ledger
from blazar.proxy.under_way import state_of, told
from tests.support.exchanges import exchange_of


def exchange(id, key="", **more):
    return exchange_of(id=id, dialect=OpenAIDialect(), operation="chat", asked="m", stream=True, body=b"private",
                    payload={}, api_key=ApiKey(key, b"") if key else None, **more)


@pytest.fixture
def ledger():
    ledger = Ledger(lambda: 100.0)
    for one in (exchange("young", "ann", started=99.0), exchange("old", "ann", started=90.5, model="m:q4"),
                exchange("old", "bob", started=95.0)):
        ledger.enter(one)
    return ledger


def test_the_oldest_come_first(ledger):
    found = told(ledger, None, 0, None)
    assert [(row["id"], row["key"], row["age_secs"]) for row in found["requests"]] == [
        ("old", "ann", 9.5), ("old", "bob", 5.0), ("young", "ann", 1.0)]
    assert found["cancelled"] == 0 and "private" not in repr(found)
    assert found["requests"][0]["model"] == "m:q4" and found["requests"][1]["model"] is None


@pytest.mark.parametrize(("key", "id", "ended"), [("ann", "old", ["ann"]), (None, "old", ["ann", "bob"]),
                                                  ("bob", "young", []), (None, "gone", [])])
def test_cancelling_goes_by_id_and_key(ledger, key, id, ended):
    assert told(ledger, key, 0, id)["cancelled"] == len(ended)
    cancelled = [one for one in ledger.exchanges() if one.ended_by is not None]
    assert sorted(one.api_key.name for one in cancelled) == ended
    assert all(one.id == id and isinstance(one.ended_by, RequestCancelled) for one in cancelled)


@pytest.mark.parametrize(("more", "state"), [({}, "waiting"), ({"waits": "load"}, "loading"),
                                             ({"waits": "slot"}, "queued"), ({"sent": 1.0}, "running")])
def test_states(more, state):
    assert state_of(exchange("r", **more)) == state
