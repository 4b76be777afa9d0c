"""More memory never gives a worse plan, and no plan takes more than there is: many machines and models by chance."""

import random
from dataclasses import replace

import pytest

from blazar.planner.demand import Demand
from blazar.planner.ladder import LADDER
from blazar.planner.machine import Card, Machine
from blazar.planner.plan import MAIN_MEMORY, Plan, Refusal
from blazar.planner.planner import plan
from blazar.store.shape import Layer, Shape
from tests.support.known_models import KNOWN

MIB = 1 << 20
CASES = 150
GROWN = (1.03, 1.2, 1.5, 2.0, 4.0)


def shapes(chance):
    if chance.random() < 0.4:
        return chance.choice(list(KNOWN.values())).shape()
    experts = chance.choice([0, 0, chance.randrange(20, 300)])
    layer = Layer(weights=(chance.randrange(5, 200) + experts) * MIB, experts=experts * MIB, dense=5 * MIB,
                  keys=chance.choice([0, 256, 1024, 4096]), values=chance.choice([256, 1024]),
                  window=chance.choice([0, 0, 1024]), state=chance.choice([0, 0, MIB]))
    return Shape("x", chance.choice([2048, 8192, 32768, 131072]), (layer,) * chance.randrange(1, 50),
                 chance.randrange(1, 600) * MIB, chance.randrange(1, 600) * MIB, chance.choice([0, 100 * MIB]),
                 width=chance.choice([576, 4096]), feed_forward=chance.choice([1536, 14336]), heads=16,
                 key_width=chance.choice([64, 128, 80]), value_width=128, vocabulary=50_000)


def machines(chance):
    cards = tuple(Card(f"card{number}", 0, chance.randrange(500, 48_000) * MIB, number)
                  for number in range(chance.choice([0, 1, 1, 2, 3, 4])))
    workers = (Card("far", 0, chance.randrange(2000, 24_000) * MIB),) if chance.random() < 0.1 else ()
    ram = chance.randrange(2_000, 256_000) * MIB
    return Machine(cards, workers, ram, ram, ram)


def demands(chance):
    return Demand(ctx=chance.choice([0, 0, 2048, 16384, 100_000]), slots=chance.choice([0, 0, 1, 4]),
                  unified=chance.random() < 0.8, kv_in_ram=chance.random() < 0.1,
                  moe_in_ram=chance.choice([0, 0, 0, 5]), projector=chance.choice([0, 0, 800 * MIB]))


def score(found):
    """The better the larger: that it fits, how much context, all in one kind of memory, and so on."""
    if isinstance(found, Refusal):
        return (0,)
    cards = sum(part.place != MAIN_MEMORY for part in found.parts)
    is_whole = found.gpu_layers is None and "cpu_moe_n" not in found.settings
    rung = -LADDER.index(found.grade) if found.grade in LADDER else 0
    return (1, found.ctx, is_whole, rung, -found.settings.get("cpu_moe_n", 0),
            found.gpu_layers if found.gpu_layers is not None else 10**6, -cards, found.slots)


@pytest.mark.parametrize("seed", range(CASES))
def test_more_memory_never_gives_a_worse_plan(seed):
    chance = random.Random(seed)
    shape, demand, here = shapes(chance), demands(chance), machines(chance)
    before = plan(shape, demand, here)
    for factor in GROWN:
        more_ram = replace(here, ram=int((here.ram or 0) * factor))
        assert score(plan(shape, demand, more_ram)) >= score(before), (factor, "main memory")
        for number, card in enumerate(here.cards):
            cards = list(here.cards)
            cards[number] = replace(card, budget=int(card.budget * factor))
            after = plan(shape, demand, replace(here, cards=tuple(cards)))
            assert score(after) >= score(before), (factor, card.name, before, after)


@pytest.mark.parametrize("seed", range(CASES))
def test_no_part_is_larger_than_its_budget_and_nothing_is_lost(seed):
    chance = random.Random(seed + 10_000)
    shape, demand, here = shapes(chance), demands(chance), machines(chance)
    found = plan(shape, demand, here)
    if not isinstance(found, Plan):
        return
    assert all(part.budget is None or part.total <= part.budget for part in found.parts)
    assert sum(part.layers for part in found.parts) == len(shape.layers) + 1
    weights = sum(part.weights for part in found.parts)
    assert weights in (shape.weights, shape.weights + shape.tied)
    assert found.ctx <= (shape.context or found.ctx) and found.slots >= 1
    assert found == plan(shape, demand, here), "pure: the same answer again"
