import itertools

import pytest

from blazar.errors import ShuttingDown
from blazar.proxy.exchange import Exchange
from blazar.proxy.ledger import KEPT, Ledger
from tests.support.exchanges import exchange_of


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def ledger(clock):
    return Ledger(clock)


def exchange() -> Exchange:
    return exchange_of(id="r", dialect=None, operation="chat", asked="m", stream=False, body=b"", payload={})


def test_leases_are_counted_and_last_use_is_the_later_of_take_and_return(ledger, clock):
    assert ledger.take("m#1") and ledger.take("m#1")
    assert ledger.leases() == {"m#1": 2}
    clock.now = 107.0
    ledger.give_back("m#1")
    assert ledger.use_of("m#1") == {"in_flight": 1, "last_used": 107.0}
    ledger.give_back("m#1")
    assert ledger.leases() == {} and ledger.children() == {"m#1": {"in_flight": 0, "last_used": 107.0}}
    assert ledger.use_of("never#1") == {"in_flight": 0, "last_used": 0.0}


def test_the_last_use_of_all_children_is_none_while_one_is_used(ledger, clock):
    assert ledger.last_use() is None
    under_way = exchange()
    ledger.enter(under_way)
    ledger.take("m#1")
    ledger.take("n#1")
    clock.now = 103.0
    ledger.give_back("n#1")
    clock.now = 102.0
    assert ledger.last_use() is None
    ledger.give_back("m#1")
    assert ledger.last_use() is None
    ledger.leave(under_way)
    assert ledger.last_use() == 103.0


def test_what_is_told_of_the_children_is_another_after_every_change(ledger, clock):
    told = [ledger.children()]
    for change in (ledger.take, ledger.give_back, ledger.take):
        clock.now += 1
        change("m#1")
        told.append(ledger.children())
    assert all(before != after for before, after in itertools.pairwise(told))


def test_drain_of_an_unused_child_is_acknowledged_at_once(ledger):
    said = []
    ledger.drain("m#1", lambda: said.append("done"))
    assert said == ["done"] and not ledger.take("m#1")


def test_drain_is_acknowledged_once_when_the_last_lease_is_back(ledger):
    said = []
    ledger.take("m#1")
    ledger.take("m#1")
    ledger.drain("m#1", lambda: said.append("one"))
    ledger.drain("m#1", lambda: said.append("two"))
    assert not ledger.take("m#1")
    ledger.give_back("m#1")
    assert said == []
    ledger.give_back("m#1")
    assert said == ["one", "two"]
    assert ledger.take("m#2"), "another generation of the same model is another child"


def test_a_drain_ends_when_the_supervisor_was_asked_later_and_said_ready(ledger, clock):
    asked_before = clock.now
    clock.now += 1
    ledger.drain("m#1", lambda: None)
    assert not ledger.take("m#1", confirmed_at=asked_before), "that answer is older than the drain"
    clock.now += 1
    assert ledger.take("m#1", confirmed_at=clock.now)
    assert ledger.take("m#1")


def test_a_child_that_is_ended_serves_nobody_while_it_drains(ledger, clock):
    said = []
    ledger.take("m#1")
    ledger.drain("m#1", lambda: said.append("done"))
    assert ledger.drains("m#1") and not ledger.drains("m#2")
    ledger.lose("m#1")
    assert not ledger.drains("m#1") and not ledger.take("m#1")
    ledger.give_back("m#1")
    assert said == ["done"]
    clock.now += 1
    assert ledger.take("m#1", confirmed_at=clock.now), "a router's model comes back under its old name"
    ledger.drain("m#1", lambda: None)
    assert ledger.drains("m#1")


def test_gone_children_are_forgotten_when_long_idle(ledger, clock):
    for child in ("busy#1", "gone#1", "living#1"):
        ledger.take(child)
    ledger.give_back("gone#1")
    ledger.give_back("living#1")
    clock.now += KEPT + 1
    ledger.forget({"living#1"})
    assert set(ledger.children()) == {"busy#1", "living#1"}


def test_the_end_reaches_everyone_and_nobody_comes_after(ledger):
    first, gone = exchange(), exchange()
    woken = []
    first.interrupt = lambda: woken.append("first")
    for one in (first, gone):
        ledger.enter(one)
    ledger.leave(gone)
    assert ledger.under_way() == 1
    error = ShuttingDown()
    ledger.end_all(error)
    assert first.ended_by is error and woken == ["first"] and gone.ended_by is None
    with pytest.raises(ShuttingDown):
        ledger.enter(exchange())
