"""Who waits for a model, and who gives way when there is no room."""

import random
from collections import Counter
from types import SimpleNamespace

from blazar.proxy.crowd import Crowd


def filled(weights=(), **counts):
    crowd, made = Crowd(), []
    for key, count in counts.items():
        for number in range(count):
            made.append(SimpleNamespace(key=key, number=number))
            crowd.add(made[-1], key, dict(weights).get(key, 1.0))
    return crowd, made


def test_the_last_of_the_key_with_most_gives_way():
    crowd, made = filled(ann=3, bob=5, cid=1)
    assert crowd.give_way("cid", 1.0) is made[7]
    assert crowd.give_way("new", 1.0) is made[6]
    assert len(crowd) == 7


def test_a_key_does_not_push_itself_out_nor_one_that_has_as_few():
    crowd, _ = filled(ann=3, bob=2)
    assert crowd.give_way("ann", 1.0) is None
    assert crowd.give_way("bob", 1.0) is None, "they would have as many then"
    assert len(crowd) == 5


def test_weights_count():
    crowd, made = filled({"ann": 3.0}, ann=2, bob=2)
    assert crowd.give_way("bob", 1.0) is None
    assert crowd.give_way("ann", 3.0) is made[3]
    crowd, made = filled({"ann": 0.5}, ann=2, bob=2)
    assert crowd.give_way("bob", 1.0) is made[1]


def test_a_key_whose_weight_was_changed_meanwhile_does_not_push_itself_out():
    assert filled({"ann": 0.1}, ann=2)[0].give_way("ann", 3.0) is None


def test_who_gave_way_leaves_no_trace_when_it_leaves():
    crowd, made = filled(ann=3)
    other = crowd.give_way("bob", 1.0)
    crowd.remove(other, "ann")
    crowd.remove(made[0], "ann")
    crowd.remove(made[0], "ann")
    assert len(crowd) == 1
    crowd.remove(made[1], "ann")
    assert len(crowd) == 0 and not crowd._lines


def test_however_they_come_each_key_gets_its_share_of_the_places():
    for seed in range(50):
        chance, crowd, limit, here = random.Random(seed), Crowd(), 24, []
        for _ in range(400):
            key = chance.choices("abc", (30, 3, 1))[0]
            one = SimpleNamespace(key=key)
            if len(crowd) >= limit:
                other = crowd.give_way(key, 1.0)
                if other is None:
                    continue
                here.remove(other)
            crowd.add(one, key, 1.0)
            here.append(one)
            assert len(crowd) == len(here) <= limit
        counts = Counter(one.key for one in here)
        assert max(counts.values()) - min(counts.values()) <= max(1, limit // 3), counts
        if all(count for count in counts.values()) and len(counts) == 3:
            assert counts["a"] <= 12
