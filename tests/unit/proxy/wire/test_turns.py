"""Requests that come at once begin a few in a turn of the loop, in their order, and the loop turns in between."""

import itertools

import gevent

from blazar.proxy.wire.turns import MOST, Turns


def test_what_comes_alone_begins_at_once():
    begun, turns = [], Turns(gevent.get_hub().loop)
    turns.begin(begun.append, 1)
    assert begun == [1]


def test_many_begin_in_order_and_others_have_their_turn_in_between():
    loop, begun, looks = gevent.get_hub().loop, [], []
    turns, each_turn = Turns(loop), loop.prepare()
    each_turn.start(lambda: looks.append(len(begun)))
    count = 5 * MOST + 1
    for number in range(count):
        turns.begin(begun.append, number)
    assert begun == list(range(MOST))
    with gevent.Timeout(5):
        while len(begun) < count:
            gevent.sleep(0)
    each_turn.stop()
    each_turn.close()
    assert begun == list(range(count))
    assert max(after - before for before, after in itertools.pairwise(looks)) <= MOST


def test_the_loop_rests_when_nobody_waits():
    loop, begun = gevent.get_hub().loop, []
    turns = Turns(loop)
    for number in range(2 * MOST):
        turns.begin(begun.append, number)
    with gevent.Timeout(5):
        while len(begun) < 2 * MOST:
            gevent.sleep(0.001)
    turned = []
    each_turn = loop.prepare()
    each_turn.start(lambda: turned.append(1))
    gevent.sleep(0.05)
    each_turn.stop()
    each_turn.close()
    assert len(turned) < 10
