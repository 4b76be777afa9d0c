"""scheduler, policies/evict, policies/idle and policies/outdated as tables."""

import random

import pytest

from blazar.planner.kv import Grade
from blazar.planner.need import Offer
from blazar.planner.plan import Plan, Refusal
from blazar.planner.room import Held, Room
from blazar.supervisor import scheduler
from blazar.supervisor.actions import Evict, Refuse, Start, Wake
from blazar.supervisor.policies import idle, outdated
from blazar.supervisor.scheduler import FULL, LOOK_AGAIN, NO_ROOM
from blazar.supervisor.snapshot import ChildView, Memory, Snapshot
from blazar.supervisor.states import LIVE, State

FIRST, SECOND = "0000:01:00.0", "0000:02:00.0"
CARDS = {FIRST: 24, SECOND: 12}


def wants(size, least=None):
    """A model that takes `size` of one card with room for it, or at worse terms `least`."""
    def offer(room):
        left = {key: min(size_ - room.taken.get(key, 0), room.free.get(key, size_)) for key, size_ in CARDS.items()}
        for worth, needed in ((1, size), (0, least or size)):
            card = max(left, key=left.get)
            if left[card] >= needed:
                return Offer(Plan(0, 1, Grade(), ()), Held({card: needed}), (worth,))
        return Refusal(needed, max(left.values()), "the card", ("buy one",))
    return offer


def view(model, state=State.READY, held=None, **fields):
    sizes = {FIRST: held} if isinstance(held, int) else held or {}
    return ChildView(model, state, fields.pop("keep_alive", 300.0), held=Held(sizes), **fields)


def queued(model, asked_at=0.0, size=0, **fields):
    return view(model, State.QUEUED, asked_at=asked_at, offer=wants(size, fields.pop("least", None)), **fields)


def decide(children, limit=0, memory=None, now=100.0):
    """By what the children hold alone, unless a memory is given."""
    return scheduler.decide(now, Snapshot(tuple(children), memory or Memory()), limit)


def evicted(*victims, room):
    return [Evict(victim, f"room for {room}") for victim in victims]


NO_PLACE = FULL.format(limit=1)


@pytest.mark.parametrize("children, limit, expected", [
    ([view("a", pinned=True), queued("b")], 1, [Refuse("b", NO_PLACE)]),
    ([view("a", State.STARTING, pinned=True), queued("b"), queued("c")], 1,
     [Refuse("b", NO_PLACE), Refuse("c", NO_PLACE)]),
    ([view("a", pinned=True), view("b", last_used=99.0), queued("c")], 2, evicted("b", room="c")),
    ([view("a", pinned=True)], 1, []),
    ([view("a", State.STOPPING, pinned=True), queued("b")], 1, []),
])
def test_pinned_models_stay(children, limit, expected):
    assert decide(children, limit) == expected


@pytest.mark.parametrize("children, limit, expected", [
    ([queued("a")], 0, ["a"]),
    ([queued("late", 2), queued("early", 1)], 0, ["early", "late"]),
    ([queued("late", 2), queued("early", 1)], 1, ["early"]),
    ([view("x", in_flight=1), queued("a")], 2, ["a"]),
    ([view("x", State.STOPPING), queued("a")], 1, []),
    ([view("x", State.ABSENT), queued("a")], 1, ["a"]),
    ([queued("a", not_before=103.0)], 0, [Wake(3.0)]),
    ([queued("a", 1, not_before=103.0), queued("b", 2)], 1, [Wake(3.0), "b"]),
    ([view("a", State.QUEUED)], 0, []),  # not weighed yet
])
def test_who_starts(children, limit, expected):
    decided = decide(children, limit)
    assert [action.place if isinstance(action, Start) else action for action in decided] == expected


@pytest.mark.parametrize("children, limit, victims", [
    ([view("x"), queued("a")], 1, ["x"]),
    ([view("x", last_used=50), view("y", last_used=40), queued("a")], 2, ["y"]),
    ([view("busy", last_used=1, in_flight=1), view("y", last_used=90), queued("a")], 2, ["y"]),
    ([view("one", last_used=9, in_flight=1), view("two", last_used=8, in_flight=1), queued("a")], 2, ["two"]),
    ([view("fresh", ready_at=60), view("old", last_used=50), queued("a")], 2, ["old"]),
    ([view("x", State.DRAINING), queued("a")], 1, []),
    ([view("x", State.STOPPING), view("y"), queued("a")], 2, []),
    ([view("x", State.STARTING), queued("a")], 1, []),
    ([view("x"), queued("a"), queued("b")], 1, ["x"]),
    ([view("x"), queued("a", not_before=101.0)], 1, []),
])
def test_who_makes_a_place(children, limit, victims):
    assert [one for one in decide(children, limit) if not isinstance(one, Wake)] == evicted(*victims, room="a")


def test_two_that_wait_get_two_places():
    assert decide([view("x"), view("y", last_used=1), queued("a"), queued("b", 1)], 2) == [
        *evicted("x", room="a"), *evicted("y", room="b")]


def test_a_young_child_stays_for_a_moment():
    assert decide([view("x", ready_at=99.75), queued("a")], 1) == [Wake(0.25)]


@pytest.mark.parametrize("children, expected", [
    # 24 and 12 on two cards
    ([view("x", held=14), queued("a", size=10)], [Start("a", None)]),
    ([view("x", held=14), queued("a", size=12)], [Start("a", None)]),  # the second card
    ([view("x", held=14), queued("a", size=13)], evicted("x", room="a")),
    ([view("x", held=12), view("y", held=12, last_used=9), queued("a", size=20)], evicted("x", "y", room="a")),
    ([view("x", held=4), view("y", held=20, last_used=9), queued("a", size=20)], evicted("y", room="a")),
    ([view("x", held=4), view("y", held=9, last_used=8), view("z", held=9, last_used=9), queued("a", size=15)],
     evicted("x", "y", room="a")),
    ([view("x", held={SECOND: 9}), view("y", held=9, last_used=9), queued("a", size=20)], evicted("y", room="a")),
    ([view("x", held=20, in_flight=1), view("y", held=2, last_used=9), queued("a", size=20)],
     evicted("x", room="a")),
    ([view("x", held=9, in_flight=1), view("y", held=9, last_used=9), queued("a", size=14)], evicted("y", room="a")),
    ([view("dear", held=9, cost=5), view("y", held=9, last_used=9), queued("a", size=14)], evicted("y", room="a")),
    ([view("x", held=9), view("cheap", held=9, last_used=9, cost=0), queued("a", size=14)],
     evicted("cheap", room="a")),
    ([view("x", held=20, cost=1000), queued("a", size=20)], evicted("x", room="a")),
    ([view("x", State.STARTING, held=20), queued("a", size=20)], []),
    ([view("x", State.DRAINING, held=20), view("y", held=4), queued("a", size=20)], []),
    # worse terms are taken only when pinned models leave no better
    ([view("x", held=20), queued("a", size=20, least=3)], evicted("x", room="a")),
    ([view("x", held=20, pinned=True), view("y", held={SECOND: 12}), queued("a", size=20, least=3)],
     [Start("a", None)]),
    ([view("x", held=22, pinned=True), view("y", held={SECOND: 12}), queued("a", size=20, least=3)],
     evicted("y", room="a")),
])
def test_bytes(children, expected):
    assert decide(children) == expected


@pytest.mark.parametrize("children, expected", [
    # two in flight: the second is decided beside the first
    ([queued("a", 1, size=20), queued("b", 2, size=12)], [Start("a", None), Start("b", None)]),
    ([queued("a", 1, size=20), queued("b", 2, size=20)], [Start("a", None)]),
    ([view("a", State.STARTING, held=20), queued("b", size=20)], []),
    ([view("x", held=20), queued("a", 1, size=20), queued("b", 2, size=20)], evicted("x", room="a")),
    # who came later takes neither what is free nor what will be, unless both are enough
    ([view("x", held=14, in_flight=1), queued("a", 1, size=20), queued("b", 2, size=10)],
     [*evicted("x", room="a"), Start("b", None)]),
    ([view("x", State.DRAINING, held=14), view("y", held={SECOND: 10}, pinned=True), queued("a", 1, size=20),
      queued("b", 2, size=10)], []),
    ([view("x", State.STARTING, held=20), view("y", held={SECOND: 10}, pinned=True), queued("a", 1, size=22),
      queued("b", 2, size=4)], []),
    ([view("x", State.STARTING, held=20), queued("a", 1, size=22), queued("b", 2, size=4)], [Start("b", None)]),
    ([view("x", State.STARTING, held=20), view("y", held={SECOND: 10}, pinned=True), queued("a", 1, size=20),
      queued("b", 2, size=4)], [Start("b", None)]),
    ([view("x", State.STARTING, held=20), view("y", held={SECOND: 10}), queued("a", 1, size=22),
      queued("b", 2, size=11)], evicted("y", room="b")),
])
def test_several_that_wait(children, expected):
    assert decide(children) == expected


def test_what_pinned_models_leave_no_room_for_is_refused_with_the_numbers_and_the_lever():
    children = [view("x", held=14, pinned=True), view("y", held=2), queued("a", size=13)]
    [refuse] = decide(children)
    assert refuse == Refuse("a", Refusal(13, 12, "the card", ("take `pin` from x", "buy one")))
    [refuse] = decide([view("y", held=2), queued("a", size=25)])
    assert refuse == Refuse("a", Refusal(25, 24, "the card", ("buy one",)))


@pytest.mark.parametrize("children, victims", [
    ([view("x", group="g"), queued("a", group="g")], ["x"]),
    ([view("x", group="g"), queued("a", group="h")], []),
    ([view("x", group="g"), view("x 2", group="g"), view("y"), queued("a", group="g")], ["x", "x 2"]),
    ([view("x", group="g", in_flight=1), view("y"), queued("a", group="g")], ["x"]),
    ([view("x", group="g", held=20), view("y", held=4), queued("a", group="g", size=20)], ["x"]),
    ([view("x", group="g"), queued("x 2", group="g")], []),
    ([view("x"), view("y"), queued("a", exclusive=True)], ["x", "y"]),
    ([view("x", exclusive=True), queued("a")], ["x"]),
    ([view("x", exclusive=True), queued("x 2", exclusive=True)], []),
])
def test_groups_and_exclusive_models(children, victims):
    decided = decide(children)
    assert [action.place for action in decided if isinstance(action, Evict)] == victims
    assert any(isinstance(action, Start) for action in decided) is (not victims)


@pytest.mark.parametrize("pin, waiting, why", [
    (view("x", group="g", pinned=True), queued("a", group="g"), "x is pinned, and both are of the group 'g'"),
    (view("x", pinned=True), queued("a", exclusive=True), "x is pinned, and a is exclusive"),
    (view("x", pinned=True, exclusive=True), queued("a"), "x is pinned, and x is exclusive"),
])
def test_what_quarrels_with_a_pinned_model_is_refused(pin, waiting, why):
    [refuse] = decide([pin, waiting])
    assert refuse.place == "a" and refuse.why.startswith(why) and "take `pin` from it" in refuse.why


def test_two_of_a_group_that_wait_come_one_after_the_other():
    assert decide([queued("a", 1, group="g"), queued("b", 2, group="g")]) == [Start("a", None)]
    assert decide([view("a", State.STARTING, group="g"), queued("b", 2, group="g")]) == []


@pytest.mark.parametrize("soon, now, late, expected", [
    ({FIRST: 20}, {FIRST: 20}, False, [Start("a", None)]),
    ({FIRST: 20}, {FIRST: 4}, True, [Wake(LOOK_AGAIN)]),  # an old process has ended, its memory is still shown as used
    ({FIRST: 4}, {FIRST: 4}, False, evicted("x", room="a")),  # others use the card
])
def test_memory_as_the_system_shows_it(soon, now, late, expected):
    other = {SECOND: 0}
    children = [view("x", held=4), queued("a", size=6)]
    assert decide(children, memory=Memory({**soon, **other}, {**now, **other}, late)) == expected


def test_memory_that_others_use_is_no_reason_to_evict_in_vain():
    children = [view("x", held=4), queued("a", size=10)]
    [refuse] = decide(children, memory=Memory({FIRST: 4, SECOND: 0}, {FIRST: 4, SECOND: 0}))
    assert refuse == Refuse("a", Refusal(10, 8, "the card", ("buy one",)))


class World:
    """Models that come and go on two cards as the scheduler says; each rule is looked at after every step."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.now = 100.0
        self.limit = self.random.choice([0, 0, 2, 3])
        names = "abcdefg"[:self.random.randint(3, 7)]
        self.wants = {name: self.random.choice([1, 3, 6, 10, 12, 20, 24]) for name in names}
        self.fixed = {name: {"group": self.random.choice(["", "", "", "g", "h"]), "cost": self.random.choice([0, 1, 9]),
                             "exclusive": self.random.random() < 0.05} for name in names}
        self.children = {}
        self.waited = dict.fromkeys(names, 0)

    def ask(self, name):
        if name not in self.children:
            self.children[name] = queued(name, self.now, self.wants[name], **self.fixed[name])

    def become(self, name, state, **fields):
        child = self.children[name]
        if state is None:
            del self.children[name]
        else:
            self.children[name] = ChildView(**{**vars(child), "state": state, **fields})

    def step(self):
        self.now += 1
        self._live()
        snapshot = Snapshot(tuple(self.children.values()))
        for action in scheduler.decide(self.now, snapshot, self.limit):
            assert not isinstance(action, Refuse), "everything fits on the empty machine, and nothing is pinned"
            if isinstance(action, Start):
                self.waited[action.place] = 0
                self.become(action.place, State.STARTING, held=action.offer.held)
            elif isinstance(action, Evict):
                assert self.children[action.place].state is State.READY
                self.become(action.place, State.DRAINING)
        self._never_too_much()
        for name, child in self.children.items():
            self.waited[name] = self.waited[name] + 1 if child.state is State.QUEUED else 0

    def _live(self):
        for name, child in list(self.children.items()):
            if child.state in (State.STARTING, State.DRAINING, State.STOPPING) and self.random.random() < 0.5:
                following = {State.STARTING: State.READY, State.DRAINING: State.STOPPING, State.STOPPING: None}
                self.become(name, following[child.state], **({"ready_at": self.now} if child.state is State.STARTING
                                                             else {}))
            elif child.state is State.READY:
                self.become(name, State.READY, in_flight=self.random.randint(0, 1),
                            last_used=self.random.choice([child.last_used, self.now]))

    def _never_too_much(self):
        live = [child for child in self.children.values() if child.state in LIVE]
        for card, size in CARDS.items():
            assert sum(child.held.sizes.get(card, 0) for child in live) <= size
        assert not self.limit or len(live) <= self.limit
        assert not any(scheduler.quarrel(one, other) for one in live for other in live)


@pytest.mark.parametrize("seed", range(40))
def test_never_over_budget_and_nobody_starves(seed):
    world = World(seed)
    for _ in range(150):
        for name in world.wants:
            if world.random.random() < 0.3:
                world.ask(name)
        world.step()
        assert max(world.waited.values()) < 90, world.children


@pytest.mark.parametrize("seed", range(100))
def test_no_eviction_that_was_not_needed(seed):
    """One model waits: with any single victim left loaded there would be no room for it."""
    chance = random.Random(seed)
    children, left = [], dict(CARDS)
    for name in "abcdef":
        card, size = chance.choice(list(CARDS)), chance.randint(1, 9)
        if size <= left[card]:
            left[card] -= size
            children.append(view(name, held={card: size}, last_used=chance.random(), in_flight=chance.randint(0, 1),
                                 cost=chance.randint(0, 2)))
    waiting = queued("new", size=chance.randint(1, 24))
    victims = {action.place for action in decide([*children, waiting]) if isinstance(action, Evict)}
    for victim in [*victims, None]:
        stay = [child for child in children if child.place not in victims - {victim}]
        taken = {card: sum(child.held.sizes.get(card, 0) for child in stay) for card in CARDS}
        assert isinstance(waiting.offer(Room(taken)), Offer) is (victim is None)


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


def started(actions):
    return [action.place for action in actions if isinstance(action, Start)]


def test_what_is_loaded_ahead_takes_free_room_only():
    there, spare = view("there", ready_at=1.0, held=20), queued("spare", 1.0, 4, is_spare=True)
    assert started(decide([there, spare], 2)) == started(decide([there, spare])) == ["spare"]
    assert decide([there, spare], 1) == [Refuse("spare", NO_ROOM)]
    assert decide([there, queued("spare", 1.0, 20, is_spare=True)]) == [Refuse("spare", NO_ROOM)]
    assert decide([there, queued("spare", 1.0, 20, least=4, is_spare=True)]) == [Refuse("spare", NO_ROOM)]
    actions = decide([there, spare, queued("asked", 2.0, 4)], 1)
    assert actions == [Refuse("spare", NO_ROOM), *evicted("there", room="asked")]
    held_back = queued("held", 0.0, 4, not_before=103.0, is_spare=True)
    assert decide([held_back]) == [Refuse("held", NO_ROOM)]


def test_one_that_never_fits_is_told_so_even_if_nobody_waits():
    assert isinstance(decide([queued("large", 0.0, 99, is_spare=True)])[0].why, Refusal)


def test_what_is_loaded_ahead_waits_for_memory_that_is_on_its_way_back():
    spare = queued("spare", 1.0, 16, is_spare=True)
    late = Memory(soon={FIRST: 20}, now={FIRST: 2}, late=True)
    assert decide([spare], memory=late) == [Wake(LOOK_AGAIN)]
    there = view("there", ready_at=1.0, held=20)
    full = Memory(soon={FIRST: 4}, now={FIRST: 2}, late=True)
    assert decide([there, spare], memory=full) == [Refuse("spare", NO_ROOM)], "what comes back is not enough"
