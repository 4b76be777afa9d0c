"""Reading the configuration again: one at a time, however many ask, and nobody is kept waiting at a stop."""

import threading

import pytest

from blazar.config.config import Config
from blazar.errors import ConfigRefused, ShuttingDown
from blazar.supervisor.loop import Loop
from blazar.supervisor.pool import Pool
from blazar.supervisor.reload import Reload
from blazar.supervisor.report import Report


class Bench:
    """A `Reload` whose file is read when the test lets it, and whose changes are in force when it says so."""

    def __init__(self):
        self.loop = Loop()
        self.may_read = threading.Event()
        self.may_read.set()
        self.refusal = None
        self.reads, self.told, self.answers, self.applied, self.events = 0, [], [], [], []
        self.reload = Reload(Pool(self.loop), self.load, lambda fresh, then: self.applied.append(then),
                             lambda kind, **fields: self.events.append((kind, fields)), self.told.append, lambda: 12.5)

    def load(self):
        self.may_read.wait(10)
        self.reads += 1
        if self.refusal:
            raise self.refusal
        return Config.from_dict({})

    def ask(self, name):
        self.reload.ask(lambda report, error: self.answers.append((name, report, error)))

    def turn_until(self, probe):
        for _ in range(2000):
            if probe():
                return
            self.loop.turn(0.01)
        raise AssertionError("it did not happen")


@pytest.fixture
def bench():
    return Bench()


def test_many_who_ask_have_it_read_twice(bench):
    bench.may_read.clear()
    for number in range(9):
        bench.ask(number)
    bench.may_read.set()
    bench.turn_until(lambda: bench.applied)
    bench.ask("late")
    assert bench.reads == 1 and bench.answers == []
    first = Report(changed=["port"])
    bench.applied.pop()(first, None)
    assert bench.answers == [(0, first, None)]
    bench.turn_until(lambda: bench.applied)
    bench.applied.pop()(Report(), None)
    assert bench.reads == 2 and [name for name, *_ in bench.answers] == [*range(9), "late"]
    assert bench.told[0] == "RELOADING=1\nMONOTONIC_USEC=12500000" and bench.told[1].startswith("READY=1\n")
    assert len(bench.told) == 4
    assert bench.events == [("config_reloaded", {"changed": ["port"]}), ("config_reloaded", {"changed": []})]


def test_a_refusal_is_told_and_the_next_one_goes_well(bench):
    bench.refusal = ConfigRefused("line 3 is odd")
    bench.ask(1)
    bench.turn_until(lambda: bench.answers)
    assert bench.answers == [(1, None, bench.refusal)] and not bench.applied
    assert "READY=1" in bench.told[1] and "refused" in bench.told[1]
    assert bench.events == [("config_refused", {"message": str(bench.refusal)})]
    bench.refusal = None
    bench.ask(2)
    bench.turn_until(lambda: bench.applied)


@pytest.mark.parametrize("is_read", [False, True])
def test_a_stop_keeps_nobody_waiting(bench, is_read):
    bench.may_read.clear()
    bench.ask(1)
    bench.ask(2)
    if is_read:
        bench.may_read.set()
        bench.turn_until(lambda: bench.applied)
    bench.reload.end()
    bench.ask(3)
    assert [(name, type(error)) for name, _, error in bench.answers] == [(n, ShuttingDown) for n in (1, 2, 3)]
    bench.may_read.set()
    bench.turn_until(lambda: bench.reads)
    for then in bench.applied:
        then(Report(), None)
    assert len(bench.answers) == 3


def test_what_people_are_told():
    report = Report(changed=["slots"], children=["m"], gateway="replaced", certificate="new", restart=["port"],
                    failed=["that"])
    assert report.lines() == [
        "changed: slots", "loaded anew once their requests have ended: m",
        "the gateway was replaced; its running answers go on", "new connections get the new certificate",
        "needs a restart of the daemon: port", "not in force: that"]
    assert Report.of({**report.as_dict(), "later": 3}) == report
    assert Report(restart=["host"]).lines() == ["needs a restart of the daemon: host"]
    assert Report().lines() == ["no setting has changed"]
