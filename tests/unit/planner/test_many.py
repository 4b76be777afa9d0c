"""What a child holds that loads many models in turn."""

from pathlib import Path

from blazar.hardware.census import read_census
from blazar.planner.demand import Demand
from blazar.planner.machine import machine_of
from blazar.planner.many import USUAL, ManyNeeds
from blazar.planner.need import Need
from blazar.planner.room import MAIN_MEMORY, Room, room_beside
from tests.support.known_models import KNOWN

CENSUS = Path(__file__).parents[2] / "data" / "census"
GIB = 1 << 30
NAMES = ("llama-3.1-8b", "llama-3.2-3b", "llama-3.1-8b-f16")


def recorded(name):
    return read_census(CENSUS / f"{name}.json")


def needs(*names):
    return {name: Need(KNOWN[name].shape(), Demand(ctx=4096, slots=1)) for name in names}


def test_the_largest_of_those_that_are_loaded_at_a_time_count():
    census = recorded("two-24")
    alone = {name: need.offer(census, Room()) for name, need in needs(*NAMES).items()}
    [card] = {key for offer in alone.values() for key in offer.held.sizes} - {MAIN_MEMORY}
    large, small = alone["llama-3.1-8b"].held, alone["llama-3.2-3b"].held
    both = ManyNeeds(needs("llama-3.1-8b", "llama-3.2-3b"), 2).offer(census, Room())
    assert both.held.sizes[card] == large.sizes[card] + small.sizes[card]
    assert both.held.mapped == large.mapped + small.mapped
    assert (both.plan.most, both.plan.notice) == (2, "")
    one = ManyNeeds(needs("llama-3.1-8b", "llama-3.2-3b"), 1).offer(census, Room())
    assert (one.held.sizes[card], one.plan.most) == (large.sizes[card], 1)
    assert dict(one.plan.plans) == {name: alone[name].plan for name in ("llama-3.1-8b", "llama-3.2-3b")}


def test_where_the_largest_do_not_fit_beside_each_other_fewer_are_loaded():
    census = recorded("two-24")
    card = machine_of(census).cards[0]
    offer = ManyNeeds(needs(*NAMES), 3).offer(census, Room())
    assert offer.plan.most == 2 and "it loads 2 of its models at a time and not 3" in offer.plan.notice
    assert offer.held.sizes[card.key] <= card.budget, "what is promised fits"
    assert len(offer.plan.plans) == 3
    assert ManyNeeds(needs(*NAMES)).offer(census, Room()).plan.most == 2, "the child's own number is too large as well"
    assert ManyNeeds(needs(*NAMES[:2])).offer(census, Room()).plan.most == 0 and USUAL > 2


def test_a_model_that_does_not_fit_is_left_out_and_the_offer_is_worse_by_it():
    census = recorded("no-gpu")
    many = ManyNeeds(needs("llama-3.1-8b", "llama-3.1-8b-f16"), 1)
    best = many.offer(census, Room())
    main = machine_of(census).ram
    less = many.offer(census, Room({MAIN_MEMORY: main - 8 * GIB}))
    assert list(less.plan.plans) == ["llama-3.1-8b"] and less.held.sizes[MAIN_MEMORY] < 8 * GIB
    assert best.serves(less) and not less.serves(best) and best.serves(best)
    nothing = many.offer(census, Room({MAIN_MEMORY: main}))
    assert (dict(nothing.plan.plans), dict(nothing.held.sizes)) == ({}, {})
    assert less.serves(nothing) and not nothing.serves(less)
    assert many.offer(census, room_beside({}, [nothing.held])) == best, "an empty one takes nothing from others"


def test_without_any_model_there_is_nothing_to_hold():
    offer = ManyNeeds({}, 2).offer(recorded("no-gpu"), Room())
    assert (dict(offer.held.sizes), offer.plan.most, offer.worth) == ({}, 2, ())
