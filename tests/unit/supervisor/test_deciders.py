"""scheduler, policies/evict and policies/idle as tables."""

import pytest

from blazar.supervisor import scheduler
from blazar.supervisor.actions import Evict, Refuse, Start, Wake
from blazar.supervisor.policies import evict, idle, outdated
from blazar.supervisor.snapshot import ChildView, Snapshot
from blazar.supervisor.states import State


def view(model, state=State.READY, **fields):
    return ChildView(model, state, fields.pop("keep_alive", 300.0), **fields)


def queued(model, asked_at=0.0, **fields):
    return view(model, State.QUEUED, asked_at=asked_at, **fields)


FULL = evict.FULL.format(limit=1)


@pytest.mark.parametrize("children, limit, expected", [
    ([view("a", pinned=True), queued("b")], 1, [Refuse("b", FULL)]),
    ([view("a", State.STARTING, pinned=True), queued("b"), queued("c")], 1, [Refuse("b", FULL), Refuse("c", FULL)]),
    ([view("a", pinned=True), view("b", last_used=99.0), queued("c")], 2, [Evict("b", "room for a waiting model")]),
    ([view("a", pinned=True)], 1, []),
])
def test_pinned_models_stay(children, limit, expected):
    assert evict.decide(100.0, Snapshot(tuple(children)), limit) == expected


@pytest.mark.parametrize("children, limit, expected", [
    ([queued("a")], 0, [Start("a")]),
    ([queued("late", 2), queued("early", 1)], 0, [Start("early"), Start("late")]),
    ([queued("late", 2), queued("early", 1)], 1, [Start("early")]),
    ([view("x"), queued("a")], 1, []),
    ([view("x"), queued("a")], 2, [Start("a")]),
    ([view("x", State.STOPPING), queued("a")], 1, []),
    ([view("x", State.ABSENT), queued("a")], 1, [Start("a")]),
    ([queued("a", not_before=103.0)], 0, [Wake(3.0)]),
    ([queued("a", 1, not_before=103.0), queued("b", 2)], 1, [Wake(3.0), Start("b")]),
])
def test_who_starts(children, limit, expected):
    assert scheduler.decide(100.0, Snapshot(tuple(children)), limit) == expected


ROOM = "room for a waiting model"


@pytest.mark.parametrize("children, limit, expected", [
    ([view("x"), queued("a")], 0, []),
    ([view("x"), queued("a")], 2, []),
    ([view("x"), queued("a")], 1, [Evict("x", ROOM)]),
    ([view("x", last_used=50), view("y", last_used=40), queued("a")], 2, [Evict("y", ROOM)]),
    ([view("busy", last_used=1, in_flight=1), view("y", last_used=90), queued("a")], 2, [Evict("y", ROOM)]),
    ([view("one", last_used=9, in_flight=1), view("two", last_used=8, in_flight=1), queued("a")], 2,
     [Evict("two", ROOM)]),
    ([view("fresh", ready_at=60), view("old", last_used=50), queued("a")], 2, [Evict("old", ROOM)]),
    ([view("x", State.DRAINING), queued("a")], 1, []),
    ([view("x", State.STOPPING), view("y"), queued("a")], 2, []),
    ([view("x", State.STARTING), queued("a")], 1, []),
    ([view("x"), view("y", last_used=1), queued("a"), queued("b")], 2, [Evict("x", ROOM), Evict("y", ROOM)]),
    ([view("x"), queued("a"), queued("b")], 1, [Evict("x", ROOM)]),
    ([view("x", ready_at=99.75), queued("a")], 1, [Wake(0.25)]),
    ([view("x"), queued("a", not_before=101.0)], 1, []),
])
def test_who_makes_room(children, limit, expected):
    assert evict.decide(100.0, Snapshot(tuple(children)), limit) == expected


@pytest.mark.parametrize("child, goes", [
    (view("m", ready_at=10, last_used=20, keep_alive=80.0), True),
    (view("m", ready_at=10, last_used=20.5, keep_alive=80.0), False),
    (view("m", ready_at=10, keep_alive=90.0), True),
    (view("m", ready_at=10, last_used=20, keep_alive=80.0, in_flight=1), False),
    (view("m", ready_at=10, last_used=20, keep_alive=-1.0), False),
    (view("m", ready_at=10, last_used=100, keep_alive=0.0), True),
    (view("m", ready_at=99, keep_alive=0.0), False),
    (view("m", ready_at=95, keep_alive=0.0), True),
    (view("m", State.STARTING, keep_alive=0.0), False),
    (view("m", State.DRAINING, ready_at=10, last_used=20, keep_alive=0.0), False),
])
def test_who_is_idle(child, goes):
    actions = idle.decide(100.0, Snapshot((child,)))
    assert [action.place for action in actions] == (["m"] if goes else [])


def test_who_is_outdated():
    children = [view("new"), view("old", outdated=True, in_flight=1), view("loading", State.STARTING, outdated=True),
                view("leaving", State.DRAINING, outdated=True)]
    assert outdated.decide(Snapshot(tuple(children))) == [
        Evict("old", "its file or its socket was replaced or removed")]
