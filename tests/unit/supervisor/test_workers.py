"""Leases and drains, with links to two ends of real socket pairs."""

import os
import socket
import subprocess

import pytest

from blazar.control import Link
from blazar.supervisor.loop import Loop
from blazar.supervisor.workers import RECONNECT, SHARES, USAGE_LIMIT, Workers


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


class Bench:
    """The supervisor's side on a loop with a clock of its own; `worker` adds a gateway worker's side."""

    def __init__(self):
        self.clock = Clock()
        self.loop = Loop(self.clock)
        self.workers = Workers(self.loop)
        self.done = []

    def worker(self, pid=None, leases=(), uses=None):
        ours, theirs = socket.socketpair()
        heard = []

        def hear(link, message):
            heard.append(message)
            if message["kind"] == "usage" and uses is not None:
                link.answer(message, children=uses)

        far = Link(theirs, hear).start()
        near = Link(ours, lambda link, message: None,
                    lambda link: self.loop.post(self.workers.leave, link)).start()
        self.workers.join(near, pid or os.getpid(), leases)
        return near, far, heard

    def turn_until(self, probe, turns=200):
        for _ in range(turns):
            if probe():
                return
            self.loop.turn(0.02)
        raise AssertionError("it did not happen")

    def pass_time(self, seconds):
        self.clock.now += seconds
        self.loop.turn(0.02)


@pytest.fixture
def bench():
    return Bench()


@pytest.fixture
def dead_pid():
    process = subprocess.Popen(["true"])
    process.wait()
    return process.pid


def test_drain_without_workers_is_done_at_once(bench):
    bench.workers.drain("m#1", lambda: bench.done.append("drained"))
    bench.turn_until(lambda: bench.done == ["drained"])


def test_drain_waits_for_every_worker(bench):
    workers = [bench.worker(), bench.worker()]
    bench.workers.drain("m#1", lambda: bench.done.append("drained"))
    for number, (_, far, heard) in enumerate(workers):
        bench.turn_until(lambda heard=heard: heard)
        assert (heard[0]["kind"], heard[0]["child_id"]) == ("drain", "m#1")
        assert bench.done == []
        far.answer(heard[0])
        if number == 0:
            bench.loop.turn(0.05)
            bench.loop.turn(0.05)
            assert bench.done == []
    bench.turn_until(lambda: bench.done == ["drained"])


def test_leases_of_a_dead_worker_are_returned_at_once(bench, dead_pid):
    _, far, heard = bench.worker(dead_pid, leases={"m#1": 1})
    bench.workers.drain("m#1", lambda: bench.done.append("drained"))
    bench.turn_until(lambda: heard)
    far.close()
    bench.turn_until(lambda: bench.done == ["drained"])


def test_leases_of_a_worker_that_only_lost_its_link_count_for_five_seconds(bench):
    _, far, heard = bench.worker(leases={"m#1": 1})
    bench.workers.drain("m#1", lambda: bench.done.append("drained"))
    bench.turn_until(lambda: heard)
    far.close()
    bench.turn_until(lambda: not bench.workers.all())
    bench.loop.turn(0.05)
    bench.pass_time(RECONNECT - 0.1)
    assert bench.done == []
    assert bench.workers.use_of("m#1").in_flight == 1
    bench.pass_time(0.2)
    bench.turn_until(lambda: bench.done == ["drained"])
    assert bench.workers.use_of("m#1").in_flight == 0


def test_a_worker_that_comes_back_is_asked_again(bench):
    _, far, heard = bench.worker(leases={"m#1": 1})
    bench.workers.drain("m#1", lambda: bench.done.append("drained"))
    bench.turn_until(lambda: heard)
    far.close()
    bench.turn_until(lambda: not bench.workers.all())
    _, again, heard_again = bench.worker(leases={"m#1": 1})
    assert bench.workers.use_of("m#1").in_flight == 1
    bench.loop.turn(0.05)
    bench.pass_time(RECONNECT + 0.1)
    bench.turn_until(lambda: heard_again)
    assert bench.done == []
    again.answer(heard_again[0])
    bench.turn_until(lambda: bench.done == ["drained"])


def test_a_drain_that_begins_while_a_worker_is_away_waits_for_it_too(bench):
    _, far, _ = bench.worker(leases={"m#1": 1})
    far.close()
    bench.turn_until(lambda: not bench.workers.all())
    bench.workers.drain("m#1", lambda: bench.done.append("drained"))
    bench.loop.turn(0.05)
    assert bench.done == []
    bench.pass_time(RECONNECT + 0.1)
    bench.turn_until(lambda: bench.done == ["drained"])


def test_usage_is_summed_over_workers(bench):
    bench.worker(uses={"m#1": {"in_flight": 2, "last_used": 10.0}})
    bench.worker(uses={"m#1": {"in_flight": 1, "last_used": 30.0}, "n#1": {"in_flight": 0, "last_used": 5.0}})
    bench.workers.refresh(lambda: bench.done.append("told"))
    bench.turn_until(lambda: bench.done == ["told"])
    use = bench.workers.use_of("m#1")
    assert (use.in_flight, use.last_used) == (3, 30.0)
    assert bench.workers.use_of("n#1").last_used == 5.0
    bench.workers.keep_only({"m#1"})
    assert bench.workers.use_of("n#1").last_used == 0.0


def test_a_silent_worker_is_not_waited_for(bench):
    bench.worker(uses=None)
    bench.workers.refresh(lambda: bench.done.append("told"))
    bench.loop.turn(0.02)
    assert bench.done == []
    bench.pass_time(USAGE_LIMIT + 0.1)
    bench.turn_until(lambda: bench.done == ["told"])


def test_a_note_for_the_others(bench):
    near, _, heard = bench.worker(pid=1)
    _, _, other = bench.worker(pid=2)
    bench.workers.tell_others(near, "spent", usage=[7])
    bench.turn_until(lambda: other)
    assert other == [{"kind": "spent", "usage": [7]}] and heard == []


def test_only_workers_that_use_children_share_their_slots(bench):
    assert bench.workers.sharing() == 1
    first, second, _ = (bench.worker()[0] for _ in range(3))
    bench.workers.report(first, {"m#1": {"in_flight": 1, "last_used": 0.0}})
    assert bench.workers.sharing() == 1
    bench.workers.report(second, {"m#1": {"in_flight": 0, "last_used": bench.loop.now()}})
    assert bench.workers.sharing() == 2
    bench.pass_time(SHARES + 0.1)
    assert bench.workers.sharing() == 1
    bench.workers.leave(first)
    assert bench.workers.sharing() == 1


def test_what_several_workers_say_is_gathered(bench):
    for pid in (1, 2):
        _, _, heard = bench.worker(pid)
    gathered = []
    bench.workers.gather("usage", gathered.append)
    bench.pass_time(USAGE_LIMIT + 0.1)
    bench.turn_until(lambda: gathered)
    assert gathered == [[]], "silent workers are not waited for longer"
    bench.turn_until(lambda: heard)
    assert [message["kind"] for message in heard] == ["usage"]
    bench.worker(3, uses={"a": {}})
    bench.workers.gather("usage", gathered.append)
    bench.turn_until(lambda: bench.pass_time(USAGE_LIMIT / 2) or len(gathered) > 1)
    assert [answer["children"] for answer in gathered[1]] == [{"a": {}}]
