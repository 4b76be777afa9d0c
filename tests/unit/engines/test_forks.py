"""Fork lanes, purely: which build serves an architecture, what is offered, and when one is retired."""

import platform
from pathlib import Path

import pytest

from blazar.engines.builds import Build
from blazar.engines.forks import DAY, FORKS, Fork, Retiring, choose, decide, main_number, offered

NOW = 1_800_000_000.0


def build(tag, kind="llamacpp", active=False):
    return Build(kind, tag, Path("/e") / tag, "cpu", "s", None, "2026-01-01T00:00:00Z", active, False, 0)


def lane(name="one", architectures=("one",), superseded=None, is_offered=True, machine=None):
    return {"name": name, "architectures": list(architectures), "superseded": superseded or {}, "offered": is_offered,
            "assets": [{"machine": machine or platform.machine()}]}


def fork(since=None, curated=True, pinned=False, superseded=None, architectures=("one", "two")):
    return Fork("one", curated, pinned, architectures, {"one": 100, "two": 200} if superseded is None else superseded,
                since)


@pytest.mark.parametrize(("one", "main", "days", "step"), [
    (fork(), 199, 7, None),
    (fork(), 200, 7, "mark"),
    (fork(), 10_000, 0, "mark"),
    (fork(since=NOW - 7 * DAY + 1), 200, 7, None),
    (fork(since=NOW - 7 * DAY), 200, 7, "remove"),
    (fork(since=NOW - 365 * DAY), 200, 0, None),
    (fork(since=NOW - 365 * DAY, pinned=True), 200, 7, None),
    (fork(since=NOW - 365 * DAY, curated=False), 200, 7, None),
    (fork(since=NOW - 365 * DAY), 199, 7, "unmark"),
    (fork(since=NOW - 365 * DAY), None, 7, "unmark"),
    (fork(since=NOW + 5 * DAY), 200, 7, None),
    (fork(superseded={"one": 100}), 10_000, 7, None),
    (fork(superseded={}), 10_000, 7, None)])
def test_when_a_lane_is_retired(one, main, days, step):
    assert decide(NOW, [one], main, days) == ([Retiring("one", step)] if step else [])


def test_a_lane_serves_its_architectures_until_the_main_engine_knows_them():
    mine = build("fork-one", FORKS)
    old, new = [build("b99", active=True), mine], [build("b100", active=True), mine]
    rows = [lane("other", ["zzz"]), lane(superseded={"one": 100})]
    assert choose("one", None, rows, old) is mine
    assert choose("two", None, rows, old) is None
    assert choose("one", None, rows, new) is None
    assert choose("one", None, rows, [mine]) is mine
    assert choose("one", None, rows, [build("b99", active=True)]) is None
    assert choose("one", None, [lane()], new) is mine


def test_a_pin_goes_first():
    mine = build("fork-one", FORKS)
    builds = [build("b99", active=True), mine]
    assert choose("zzz", "fork-one", [lane()], builds) is mine
    assert choose("one", "b99", [lane()], builds) is None
    assert choose("one", "llamacpp", [lane()], builds) is mine


def test_only_what_runs_here_is_offered():
    assert offered("one", [lane()]) == "one"
    assert offered("two", [lane()]) is None
    assert offered("one", [lane(is_offered=False)]) is None
    assert offered("one", [lane(machine="vax")]) is None


def test_the_main_engines_number():
    assert main_number([build("b7-cpu", active=True), build("b9"), build("fork-one", FORKS)]) == 7
    assert main_number([build("embedded-2026.10.11549", active=True)]) == 11549
    assert main_number([build("local", active=True)]) is None and main_number([]) is None
