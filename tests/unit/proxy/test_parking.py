"""Slots of children, those who wait for them, and what is counted of both."""

from types import SimpleNamespace

import gevent
import pytest

from blazar.errors import QueueFull, QueueTimeout, ShuttingDown
from blazar.proxy.auth import ApiKey
from blazar.proxy.exchange import ClientGone, Usage
from blazar.proxy.limits import Limits
from blazar.proxy.parking import POSITION, ChildLost, Lot, Parking, cost
from blazar.telemetry.metrics import Metrics
from tests.support.exchanges import exchange_of
from tests.support.fake_supervisor import endpoint
from tests.support.turning import turning

PLACE = endpoint("m", ("127.0.0.1", 9), slots=1)


class Sink:
    gone = False

    def watch(self, on_gone):
        self.leave = on_gone

    def unwatch(self):
        self.leave = None

    def departed(self):
        return ClientGone()


class Bench:
    def __init__(self, limit=10, patience=30.0, lightest=1.0):
        self.now = 100.0
        self.metrics = Metrics()
        self.parking = Parking(limit, patience, lambda: lightest, lambda: self.now, self.metrics)
        self.order = []

    def exchange(self, name="", weight=1.0, **more):
        self.now += 1
        key = ApiKey(name, b"", limits=Limits(weight=weight)) if name else None
        made = exchange_of(id=f"{name}{self.now}", dialect=SimpleNamespace(busy=503), operation="chat", asked="m",
                        stream=False, body=b"", payload={}, model="m", api_key=key, started=self.now, **more)
        made.sink, made.endpoint = Sink(), PLACE
        return made

    def wait(self, exchange, lot):
        def waits():
            ticket = self.parking.wait(exchange, lot)
            self.order.append(exchange)
            return ticket
        spawned = gevent.spawn(waits)
        gevent.sleep(0)
        return spawned


@pytest.fixture
def bench():
    return Bench(limit=20)


def test_a_free_slot_is_a_number_up_and_down(bench):
    lot = bench.parking.lot(PLACE)
    assert lot.take() and not lot.take() and bench.parking.lot(PLACE) is lot
    lot.give_back(bench.exchange())
    assert lot.take() and not lot.queue.remembers


def test_slots_go_to_those_who_wait_and_none_is_lost(bench):
    lot = bench.parking.lot(PLACE)
    assert lot.take()
    asked = [bench.exchange("ann"), bench.exchange("ann"), bench.exchange("bob", 2.0)]
    waits = [bench.wait(one, lot) for one in asked]
    assert bench.parking.waiting() == {"m": 3} and {one.waits for one in asked} == {"slot"}
    assert [dict(one.headers)[POSITION] for one in asked] == ["1", "2", "2"]
    for count in range(1, 4):
        lot.give_back(bench.exchange("ann", usage=Usage(completion_tokens=10)))
        turning(lambda count=count: len(bench.order) == count)
        assert lot.taken == 1
    gevent.joinall(waits)
    assert sorted(one.id for one in bench.order) == sorted(one.id for one in asked)
    lot.give_back(asked[-1])
    assert lot.taken == 0 and bench.parking.waiting() == {"m": 0} and not lot.queue.remembers


def test_who_leaves_in_the_moment_of_its_turn_gives_the_slot_on(bench):
    lot = bench.parking.lot(PLACE)
    lot.take()
    leaving, staying = bench.exchange("ann"), bench.exchange("ann")
    first, second = bench.wait(leaving, lot), bench.wait(staying, lot)
    lot.give_back(bench.exchange("ann"))
    leaving.sink.gone = True
    leaving.sink.leave()
    with pytest.raises(ClientGone):
        first.get(timeout=5)
    assert second.get(timeout=5).granted and lot.taken == 1


def test_what_it_has_waited_elsewhere_counts(bench):
    """One whose child died is not patient for as long once more with the next."""
    lot = bench.parking.lot(PLACE)
    lot.take()
    waits = bench.wait(bench.exchange(queue_ns=29_900_000_000), lot)
    with pytest.raises(QueueTimeout):
        waits.get(timeout=5)
    with pytest.raises(QueueTimeout):
        bench.wait(bench.exchange(queue_ns=31_000_000_000), lot).get(timeout=5)
    assert not lot.queue and lot.taken == 1


def test_an_exchange_that_is_ended_waits_no_longer(bench):
    lot = bench.parking.lot(PLACE)
    lot.take()
    ended = bench.exchange()
    waits = bench.wait(ended, lot)
    ended.end(ShuttingDown())
    with pytest.raises(ShuttingDown):
        waits.get(timeout=5)
    assert ended.interrupt is None and ended.waits == "" and not lot.queue


def test_one_too_many_is_refused_whoever_it_waits_for():
    bench = Bench(limit=2)
    bench.parking.enter(bench.exchange(), "load")
    bench.parking.enter(bench.exchange(), "load")
    with pytest.raises(QueueFull) as caught:
        bench.parking.enter(bench.exchange(), "slot")
    assert caught.value.status == 503 and caught.value.retry_after == 1.0
    assert bench.metrics.refused.value("m", "full") == 1


def test_a_lost_child_wakes_all_and_one_that_drains_does_not(bench):
    lot = bench.parking.lot(PLACE)
    lot.take()
    waits = [bench.wait(bench.exchange(), lot) for _ in range(3)]
    bench.parking.refresh([], 1, lambda child_id: True)
    gevent.sleep(0)
    assert bench.parking.waiting() == {"m": 3}
    bench.parking.refresh([], 1, lambda child_id: False)
    for one in waits:
        with pytest.raises(ChildLost):
            one.get(timeout=5)
    lot.give_back(bench.exchange())
    bench.parking.refresh([], 1, lambda child_id: False)
    assert bench.parking.lot(PLACE) is not lot


@pytest.mark.parametrize(("slots", "workers", "share"), [(4, 1, 4), (4, 2, 2), (5, 2, 3), (1, 3, 1), (0, 1, 1)])
def test_workers_share_the_slots(bench, slots, workers, share):
    place = endpoint("m", ("127.0.0.1", 9), slots=slots)
    lot = bench.parking.lot(place)
    bench.parking.refresh([place], workers, lambda child_id: False)
    assert lot.slots == share


def test_batches_come_last(bench):
    lot = bench.parking.lot(PLACE)
    lot.take()
    batches = [bench.wait(bench.exchange("ann", background=True), lot) for _ in range(2)]
    clients = [bench.wait(bench.exchange("ann"), lot) for _ in range(14)]
    for count in range(1, 17):
        served = bench.order[-1] if bench.order else bench.exchange("ann")
        served.usage = Usage(completion_tokens=10)
        lot.give_back(served)
        turning(lambda count=count: len(bench.order) == count)
    gevent.joinall([*batches, *clients], timeout=5)
    places = [place for place, one in enumerate(bench.order) if one.background]
    assert places == [0, 15], "one turn is theirs as anybody's, and costs sixteen times as much"


def test_what_a_request_costs():
    assert cost(None) == 1.0
    assert cost(Usage(prompt_tokens=400, cached_tokens=200, completion_tokens=30)) == 40.0
    assert cost(Usage(prompt_tokens=4)) == 1.0


def test_the_pause_follows_how_long_slots_are_held():
    now = [0.0]
    lot = Lot(2, lambda: now[0])
    assert lot.pause() == 1.0
    lot.held = 30.0
    assert lot.pause() == 15.0
    lot.held = 900.0
    assert lot.pause() == 60.0
