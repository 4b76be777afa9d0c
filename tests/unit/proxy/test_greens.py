"""What is put off: called once in a moment, by a greenlet of its own, and again when it is asked for again. And who is
interrupted: whoever still waits in what that was for."""

import gevent
import pytest

from blazar.proxy import greens


class Left(Exception):
    pass


class Calls:
    def __init__(self):
        self.count, self.made, self.fails = 0, greens.Event(), False

    def __call__(self):
        self.count += 1
        self.made.set()
        if self.fails:
            raise ValueError("it goes wrong")


def test_it_is_made_once_however_often_it_is_asked_for():
    calls = Calls()
    begin = greens.soon(calls, 0.001)
    for count in (1, 2):
        begin()
        begin()
        assert calls.count == count - 1
        assert calls.made.wait(20)
        greens.sleep(0.01)
        assert calls.count == count
        calls.made.clear()


def test_one_that_fails_is_logged_and_the_next_is_made(caplog):
    calls = Calls()
    begin, calls.fails = greens.soon(calls, 0.001), True
    for _ in range(2):
        begin()
        assert calls.made.wait(20)
        calls.made.clear()
    assert caplog.text.count("ValueError: it goes wrong") == calls.count == 2


@pytest.mark.parametrize("times", [1, 3])
def test_whoever_waits_is_interrupted_once(times):
    order = []

    def wait():
        try:
            with greens.interrupter(Left) as interrupt:
                interrupts.append(interrupt)
                greens.Event().wait(20)
        except Left:
            order.append("left")
        greens.sleep(0.01)
        order.append("after")
    interrupts = []
    waiting = greens.spawn(wait)
    greens.sleep(0)
    for _ in range(times):
        interrupts[0]()
    waiting.get(timeout=20)
    interrupts[0]()
    greens.sleep(0)
    assert order == ["left", "after"]


@pytest.mark.parametrize("make", [gevent.spawn, gevent.spawn_raw])
def test_who_has_gone_on_in_the_same_turn_is_let_be(make):
    """In one turn of the loop the client leaves and the answer comes; then the greenlet serves another client."""
    came, served = greens.Event(), greens.Event()

    def serve():
        with greens.interrupter(Left) as interrupt:
            interrupt()  # its throw waits for the next turn
        came.set()
        greens.sleep(0.01)
        served.set()
    make(serve)
    assert came.wait(20) and served.wait(20)
