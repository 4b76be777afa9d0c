"""What a model takes of a machine that others use too: rooms, offers, and which card a second model gets."""

from dataclasses import replace
from pathlib import Path

import pytest

from blazar.hardware.census import read_census
from blazar.planner.demand import Demand
from blazar.planner.kv import Grade
from blazar.planner.machine import Worker, machine_of
from blazar.planner.need import Need, Offer, held_by
from blazar.planner.plan import THE_CARDS, Part, Plan, Refusal
from blazar.planner.room import MAIN_MEMORY, Held, Room, room_beside
from tests.support.known_models import KNOWN

CENSUS = Path(__file__).parents[2] / "data" / "census"
GIB = 1 << 30


def recorded(name):
    return read_census(CENSUS / f"{name}.json")


def need(model, **more):
    return Need(KNOWN[model].shape(), Demand(ctx=4096, slots=1, **more))


def test_a_room_is_what_is_free_and_what_is_promised():
    stays, comes, goes = Held({"card": 5, MAIN_MEMORY: 7}, mapped=4), Held({"card": 2}), Held({"card": 3, "other": 1})
    room = room_beside({"card": 10, MAIN_MEMORY: 20}, [stays], [comes], [goes])
    assert room == Room({"card": 7, MAIN_MEMORY: 7}, {"card": 10 - 2 + 3, MAIN_MEMORY: 20 - 4})
    assert room_beside({"card": 1}, [], [comes]).free == {"card": 0}
    assert room.least(Room({"card": 9}, {"card": 1, "x": 3})) == Room(
        {"card": 9, MAIN_MEMORY: 7}, {"card": 1, "x": 3, MAIN_MEMORY: 16})


def test_a_second_model_goes_to_the_second_card():
    census = recorded("two-24")
    first = need("llama-3.1-8b-f16").offer(census, Room())
    second = need("llama-3.1-8b-f16").offer(census, room_beside({}, [first.held]))
    assert [set(one.held.sizes) - {MAIN_MEMORY} for one in (first, second)] == [
        {census.gpus[0].bus}, {census.gpus[1].bus}]
    assert [one.plan.env["CUDA_VISIBLE_DEVICES"] for one in (first, second)] == ["0", "1"]
    assert second.serves(first)
    third = need("llama-3.1-8b-f16").offer(census, room_beside({}, [first.held, second.held]))
    assert not third.serves(first) and third.plan.gpu_layers is not None


def test_other_programs_on_a_card_count():
    census = recorded("two-24")
    used = {census.gpus[0].bus: 2 * GIB, census.gpus[1].bus: 24 * GIB}
    offer = need("llama-3.1-8b-f16").offer(census, Room({}, used))
    assert offer.plan.env["CUDA_VISIBLE_DEVICES"] == "1"


def test_a_model_over_three_cards_leaves_the_taken_one_out():
    census = recorded("four-48")
    shape = replace(KNOWN["llama-3.1-8b"].shape(), entry=0)
    big = Need(replace(shape, layers=tuple(replace(one, weights=3 * GIB) for one in shape.layers)), Demand(4096, 1))
    offer = big.offer(census, Room({census.gpus[1].bus: 46 * GIB}))
    assert offer.plan.env["CUDA_VISIBLE_DEVICES"].split(",") == ["0", "2", "3"]
    assert census.gpus[1].bus not in offer.held.sizes


def test_slots_are_no_reason_to_send_anybody_away_but_layers_and_context_are():
    census = recorded("laptop-8gb")
    free = Need(KNOWN["llama-3.2-3b"].shape(), Demand(ctx=4096))
    best, card = free.offer(census, Room()), machine_of(census).cards[0].key
    less = free.offer(census, Room({card: 4 * GIB}))
    assert (best.plan.slots, less.plan.slots) == (4, 2) and less.serves(best)
    least = free.offer(census, Room({card: 5 * GIB}))
    assert isinstance(least, Offer) and not least.serves(best) and best.serves(least)


def test_main_memory_is_wanted_free_if_that_can_be_and_guarded_in_any_case():
    census = recorded("no-gpu")
    one = replace(need("llama-3.1-8b"), size=5 * GIB)
    best = one.offer(census, Room())
    tight = one.offer(census, Room({}, {MAIN_MEMORY: 4 * GIB}))
    assert not tight.serves(best) and tight.plan == best.plan
    refusal = one.offer(census, Room({}, {MAIN_MEMORY: 2 * GIB}))
    assert isinstance(refusal, Refusal) and refusal.needed == 5 * GIB // 2 + (512 << 20)
    assert isinstance(replace(one, demand=replace(one.demand, guard=False)).offer(
        census, Room({}, {MAIN_MEMORY: 2 * GIB})), Offer)


def test_pages_of_the_file_count_as_free_for_the_system():
    offer = need("llama-3.1-8b").offer(recorded("no-gpu"), Room())
    main = offer.plan.parts[-1]
    assert offer.held.mapped == main.weights and offer.held.shown(MAIN_MEMORY) == main.total - main.weights
    offer = replace(need("llama-3.1-8b"), is_mapped=False).offer(recorded("no-gpu"), Room())
    assert offer.held.shown(MAIN_MEMORY) == main.total


def test_a_refusal_says_that_it_is_for_want_of_free_memory():
    census = recorded("container-4gib")
    one = need("llama-3.2-3b")
    assert isinstance(one.offer(census, Room()), Offer)
    refusal = one.offer(census, Room({MAIN_MEMORY: 3 * GIB}))
    assert refusal.where == "what is free of this machine's memory"
    assert refusal.limit == int(census.memory.usable * 0.9) - 3 * GIB
    assert need("llama-3.1-8b-f16").offer(census, Room()).where == "90% of this machine's memory"


@pytest.mark.parametrize("parts, expected", [
    ((Part(THE_CARDS, 20 * GIB, 0, 0), Part(MAIN_MEMORY, 1 * GIB, 0, 0)), [12, 8, 1]),
    ((Part("NVIDIA GeForce RTX 3060", 5 * GIB, 0, 0, memory="0000:01:00.0"), Part(MAIN_MEMORY, GIB, 0, 0)), [5, 0, 1]),
])
def test_what_a_person_has_placed_counts_on_all_cards(parts, expected):
    machine = machine_of(recorded("pair-12-8"))
    held = held_by(Plan(0, 1, Grade(), parts), machine)
    sizes = [held.sizes.get(key, 0) for key in (*(card.key for card in machine.cards), MAIN_MEMORY)]
    assert [round(size / GIB) for size in sizes] == expected


def test_what_an_engine_spreads_by_itself_counts_on_all_cards():
    offer = Need(KNOWN["llama-3.2-3b"].shape(), Demand(4096, 1), workers=[Worker("far:1", 8 * GIB, 8 * GIB)]).offer(
        recorded("laptop-8gb"), Room())
    assert set(offer.held.sizes) == {"far:1", MAIN_MEMORY, machine_of(recorded("laptop-8gb")).cards[0].key}
    assert not offer.plan.env
