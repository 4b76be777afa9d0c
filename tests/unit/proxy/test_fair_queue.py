"""The order of those who wait for slots, on a clock that only turns move."""

import itertools
import random

import pytest

from blazar.config.refusal import Refusal
from blazar.config.tables.api_keys import FIELDS
from blazar.proxy.fair_queue import FairQueue, Ticket


class Bench:
    """One slot. `turn` serves whoever is next, with answers of the length that `lengths` gives for the key."""

    def __init__(self, weights, lengths):
        self.queue = FairQueue()
        self.weights = weights
        self.lengths = lengths
        self.tokens = dict.fromkeys(weights, 0)
        self.served = []
        self._since = itertools.count()

    def park(self, key, count=1):
        tickets = [Ticket(key, self.weights[key], float(next(self._since)), lambda: None) for _ in range(count)]
        for ticket in tickets:
            self.queue.push(ticket)
        return tickets

    def turn(self):
        ticket = self.queue.pop()
        length = self.lengths[ticket.key]()
        self.queue.settle(ticket.key, length, ticket.charged)
        self.tokens[ticket.key] += length
        self.served.append(ticket.key)
        return ticket

    def run(self, turns):
        """Each key has always two requests there: the one served is followed by another."""
        for key in self.weights:
            self.park(key, 2)
        for _ in range(turns):
            self.park(self.turn().key)

    def longest_wait(self, key):
        """The most turns that others had between two of this key."""
        return max((len(list(group)) for own, group in itertools.groupby(self.served, lambda one: one == key)
                    if not own), default=0)


def of(*choices, seed=1):
    source = random.Random(seed)
    return lambda: source.choice(choices)


LENGTHS = {"alike": (of(50), of(50)), "mixed": (of(20, 60, 100), of(20, 60, 100, seed=2)),
           "a little longer": (of(40, 60), of(50, 80, seed=3))}


@pytest.mark.parametrize("lengths", LENGTHS)
def test_tokens_follow_the_weights_and_the_lighter_key_waits_four_turns_at_most(lengths):
    heavy, light = LENGTHS[lengths]
    bench = Bench({"heavy": 3.0, "light": 1.0}, {"heavy": heavy, "light": light})
    bench.run(400)
    assert bench.tokens["heavy"] / bench.tokens["light"] == pytest.approx(3.0, abs=0.3)
    assert bench.longest_wait("light") <= 4


def test_long_answers_are_paid_for_and_nobody_is_locked_out():
    bench = Bench({"chat": 1.0, "agent": 1.0}, {"chat": of(50), "agent": of(2000)})
    bench.run(1000)
    assert bench.tokens["chat"] / bench.tokens["agent"] == pytest.approx(1.0, abs=0.2)
    assert bench.longest_wait("agent") <= 2 * 2000 / 50


def test_an_answer_much_longer_than_usual_locks_its_key_out_of_a_few_turns_only():
    lengths = iter([30_000])
    bench = Bench({"a": 1.0, "b": 1.0}, {"a": lambda: next(lengths, 50), "b": of(50)})
    bench.run(2000)
    assert bench.longest_wait("a") == pytest.approx(600, abs=5), "as many tokens as it has had"
    assert bench.served[-100:].count("a") == pytest.approx(50, abs=2)


@pytest.mark.parametrize("seed", range(40))
def test_whatever_comes_and_goes(seed):
    """Every one that was parked and stayed is served once, the oldest of a key first; none is passed over for ever."""
    source = random.Random(seed)
    weights = {f"key {number}": source.choice([0.1, 0.5, 1.0, 2.0, 10.0]) for number in range(source.randint(1, 6))}
    bench = Bench(weights, {key: of(*(source.randint(1, 200) for _ in range(4)), seed=seed) for key in weights})
    waiting, left, served, passed = [], [], [], {}
    for _ in range(600):
        if source.random() < 0.5:
            waiting += bench.park(source.choice(list(weights)))
        if waiting and source.random() < 0.1:
            gone = waiting.pop(source.randrange(len(waiting)))
            assert bench.queue.remove(gone) and not bench.queue.remove(gone)
            left.append(gone)
        assert len(bench.queue) == len(waiting)
        if waiting and source.random() < 0.5:
            soonest = [ticket for ticket in waiting if bench.queue.position(ticket) == 1]
            ticket = bench.turn()
            assert ticket is min((one for one in waiting if one.key == ticket.key), key=lambda one: one.since)
            assert soonest, "somebody is next"
            waiting.remove(ticket)
            served.append(ticket)
            passed = {one: passed.get(one, 0) + 1 for one in {one.key for one in waiting} - {ticket.key}}
            bound = sum(weights.values()) / min(weights.values()) * 200
            assert all(count <= bound for count in passed.values())
    while bench.queue:
        served.append(bench.turn())
        waiting.remove(served[-1])
    assert not waiting and len(set(served)) == len(served) and not set(served) & set(left)


def test_who_was_away_gets_no_credit_for_it():
    bench = Bench({"a": 1.0, "b": 1.0}, {"a": of(10), "b": of(10)})
    bench.park("a", 50)
    for _ in range(40):
        bench.turn()
    bench.park("b", 10)
    bench.served.clear()
    for _ in range(20):
        bench.turn()
    assert bench.served.count("a") in (9, 10, 11)
    assert bench.longest_wait("a") <= 2


def test_one_that_came_earlier_goes_first_whenever_it_is_parked():
    queue = FairQueue()
    late, early = Ticket("a", 1.0, 9.0, lambda: None), Ticket("a", 1.0, 3.0, lambda: None)
    queue.push(late)
    queue.push(early)
    assert [queue.position(early), queue.position(late)] == [1, 2]
    assert queue.pop() is early and queue.pop() is late


def test_positions_are_the_order_of_turns():
    bench = Bench({"heavy": 3.0, "light": 1.0}, {"heavy": of(50), "light": of(50)})
    bench.run(40)
    told = {}
    for key in ("light", "heavy"):
        told.update((ticket, bench.queue.position(ticket)) for ticket in bench.park(key))
    order = [bench.queue.pop() for _ in range(len(bench.queue))]
    for ticket, position in told.items():
        assert abs(order.index(ticket) + 1 - position) <= 1


def test_all_forgotten_is_a_new_beginning():
    bench = Bench({"a": 1.0, "b": 1.0}, {"a": of(10), "b": of(10)})
    bench.run(10)
    assert bench.queue.remembers
    while bench.queue:
        bench.turn()
    bench.queue.forget()
    assert not bench.queue.remembers and len(bench.queue) == 0


def test_a_weight_that_was_changed_counts_from_the_next_request_on():
    queue = FairQueue()
    for weight in (1.0, 4.0):
        for number in range(20):
            queue.push(Ticket("ann", weight, number, lambda: None))
            queue.push(Ticket("bob", 1.0, number, lambda: None))
        served = [queue.pop().key for _ in range(20)]
        queue.settle("ann", 1.0, 1.0)
    assert served.count("ann") >= 14


@pytest.mark.parametrize("weight", [0.001, 1000.0])
def test_the_outermost_weights_of_the_configuration_keep_the_books(weight):
    """For batches it is a sixteenth of that; whoever waits is served, and has a place in numbers."""
    kind = next(one.type for one in FIELDS if one.name == "weight")
    for beyond in (weight / 2, weight * 2):
        if not 0.001 <= beyond <= 1000:
            with pytest.raises(Refusal):
                kind.check(beyond)
    queue, weights = FairQueue(), {"odd": kind.check(weight) / 16, "one": 1.0}
    for number in range(50):
        for key, own in weights.items():
            ticket = Ticket(key, own, number, lambda: None)
            queue.push(ticket)
            assert 1 <= queue.position(ticket) <= 2 * number + 2
    served = []
    while queue:
        ticket = queue.pop()
        served.append(ticket.key)
        queue.settle(ticket.key, 1e6, ticket.charged)
    assert served.count("odd") == served.count("one") == 50
