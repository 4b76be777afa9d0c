"""Plans: a golden table over recorded machines and known models, cells worked out by hand, and each decision."""

from dataclasses import replace

import pytest

from blazar.planner.demand import Demand
from blazar.planner.kv import Grade
from blazar.planner.machine import Card, Machine
from blazar.planner.plan import MAIN_MEMORY, Plan, Refusal
from blazar.planner.planner import plan
from blazar.planner.program import PROGRAM
from blazar.store.shape import Layer, Shape
from tests.support.known_models import KNOWN
from tests.support.plan_table import TABLE, cell, lines

GIB, MIB = 1 << 30, 1 << 20


def test_the_golden_table():
    """When this fails on purpose: `python -m tests.support.plan_table`, and look at every line that changes."""
    assert TABLE.read_text() == "\n".join(lines())


@pytest.mark.parametrize(("model", "machine", "expected"), [
    # 1. 30 layers x (3 heads x 64) x 2 x 2 bytes = 22.5 KiB a token; x 8192 x 4 slots = 720 MiB; trained with 8192.
    #    Weights 136.3 MiB, of which 28.7 MiB of embeddings are copied to the card as head: 136.3 - 28.7 + 28.7.
    #    One pass: 512 x ((5 x 576 + 3 x 1536) x 4 + 32768 cells x 2) + logits = 47.4 MiB. In all 903.6 MiB.
    ("smollm2-135m", "two-24", "8192 x 4, f16, 903.6 MiB, on 1 card"),
    # 2. The same in main memory: one slot, so 180 MiB of cache and 22.8 MiB for a pass, and the embeddings only once:
    #    339.1 MiB. The engine itself: 16 MiB, and 49152 x (170 + 240) bytes of vocabulary, 19.2 MiB.
    ("smollm2-135m", "no-gpu", "8192 x 1, f16, in main memory, 374.3 MiB"),
    # 3. 128 KiB a token x 16384 = 2.0 GiB a slot. 4.3 GiB on the card + 0.15 GiB: with one slot 6.4 GiB, with a
    #    second 8.4 GiB, and 90 % of 8188 MiB are 7.2 GiB.
    ("llama-3.1-8b", "laptop-8gb", "16384 x 1, f16, 6.4 GiB, on 1 card"),
    # 4. Three slots: 6.0 + 4.2 + 0.2 = 10.4 GiB of 10.8 GiB (90 % of 12288 MiB); a fourth makes 12.4 GiB.
    ("llama-3.1-8b", "pair-12-8", "16384 x 3, f16, 10.4 GiB, on 1 card"),
    # 5. 14 GiB of layers and head do not fit into 10.8 GiB: 33 pieces over 10.8 + 7.0 GiB, in proportion 21 and 12.
    ("llama-3.1-8b-f16", "pair-12-8",
     "16384 x 1, f16, 10.0 GiB + 6.3 GiB, on 2 cards, split 21,12 cards 0,1"),
    # 6. 39.3 GiB on cards + 5.0 GiB of f16 cache = 44.3 GiB and two passes of 0.23 GiB, against 2 x 21.6 = 43.2 GiB;
    #    as q8_0 the cache is 5.0 x 34/64 = 2.66 GiB: 42.4 GiB.
    ("llama-3.3-70b", "two-24", "16384 x 1, q8_0, 21.4 GiB + 21.0 GiB, on 2 cards, split 41,40 cards 0,1"),
    # 7. Four slots at f16 are 20 GiB: 59.5 GiB of 71.7 GiB on one H100.
    ("llama-3.3-70b", "eight-80", "16384 x 4, f16, 59.5 GiB, on 1 card"),
    # 8. 4.5 GiB of weights alone are more than 90 % of 4 GiB: nothing helps.
    ("llama-3.1-8b", "container-4gib", "no: needs 5.3 GiB, there are 3.6 GiB"),
    # 9. 1.81 + 1.75 GiB (112 KiB a token) + 0.1 + 0.07 = 3.7 GiB is more than 3.6 GiB; as q8_0 0.93 GiB: 2.9 GiB.
    ("llama-3.2-3b", "container-4gib", "16384 x 1, q8_0, in main memory, 2.9 GiB"),
    # 10. Of 26 layers with a window of 128 + 512, padded to 768, little is kept; 24 x 2880 x 32 experts is most of it.
    #     11.2 GiB on 7.2 GiB: the experts of 10 layers, 0.44 GiB each, go to main memory.
    ("gpt-oss-20b", "laptop-8gb",
     "16384 x 1, q8_0, 6.9 GiB, on 1 card, experts of 10 layers in main memory"),
    # 11. Cards without a driver, and GPUs that share main memory, count as main memory: 4.6 + 2.25 GiB (144 KiB a
    #     token) + 0.1 for a pass + 0.07 for the engine.
    ("qwen3-8b", "driver-missing", "16384 x 1, f16, in main memory, 7.1 GiB"),
    ("qwen3-8b", "unified-arm", "16384 x 1, f16, in main memory, 7.1 GiB"),
    # 12. Only one of two cards is to be seen: 70B goes partly to main memory, and nothing is pinned.
    ("llama-3.3-70b", "cards-hidden",
     "16384 x 1, q8_0, 21.5 GiB, on 1 card, 41 layers on cards, 21.6 GiB in main memory"),
])
def test_cells_by_hand(model, machine, expected):
    assert cell(model, machine) == expected


# A model of sizes that can be counted in the head: 10 layers of 100 MiB that keep 64 KiB of f16 a token.
TEN = Shape("llama", 65536, (Layer(weights=100 * MIB, dense=60 * MIB, keys=16384, values=16384),) * 10, entry=50 * MIB,
            head=50 * MIB, key_width=128, value_width=128)
EXPERTS = replace(TEN, layers=(Layer(weights=100 * MIB, experts=90 * MIB, keys=16384, values=16384),) * 10)


def machine(*cards, ram=64.0, doubt="", workers=()):
    """Sizes in GiB; the budget is all of it."""
    made = tuple(Card(f"card{number}", int(size * GIB), int(size * GIB), number) for number, size in enumerate(cards))
    far = tuple(Card(f"far{number}:50052", int(size * GIB), int(size * GIB)) for number, size in enumerate(workers))
    whole = int(ram * GIB)
    return Machine(made, far, whole, whole, whole, doubt=doubt)


def planned(here, demand=None, shape=TEN):
    found = plan(shape, demand or Demand(ctx=4096), here)
    assert isinstance(found, Plan), found
    return found


# 4096 tokens: 2.5 GiB as f16 (10 x 256 MiB), 1.33 as q8_0, 1.02 as q8_0 with q4_0, 0.70 as q4_0. Weights on a card
# 1050 MiB. One pass: 512 x 4096 x 2 = 4 MiB.
@pytest.mark.parametrize(("card", "grade"), [
    (3.54, Grade()), (3.52, Grade("q8_0", "q8_0")), (2.38, Grade("q8_0", "q8_0")), (2.35, Grade("q8_0", "q4_0")),
    (2.06, Grade("q8_0", "q4_0")), (2.04, Grade("q4_0", "q4_0")), (1.75, Grade("q4_0", "q4_0"))])
def test_the_ladder(card, grade):
    found = planned(machine(card))
    assert found.grade == grade and found.gpu_layers is None and not found.warnings
    chosen = {} if grade == Grade() else {"cache_type_k": grade.keys, "cache_type_v": grade.values}
    assert {name: found.settings[name] for name in found.settings if name.startswith("cache_type")} == chosen


def test_what_does_not_fit_on_the_last_rung_goes_to_main_memory_with_a_warning():
    found = planned(machine(1.70))
    # As q8_0 a layer takes 100 + 136 MiB: of 1741 MiB less 4 the head takes 50, seven layers 1652.
    assert (found.grade, found.gpu_layers) == (Grade("q8_0", "q8_0"), 8)
    assert [(part.place, part.layers) for part in found.parts] == [("card0", 8), (MAIN_MEMORY, 3)]
    assert found.warnings == ("3 of 11 layers go to main memory, since the cards are too small: answers will be slow; "
                              "a smaller ctx or build may fit",)


def why_the_grade(found):
    return next(line.reason for line in found.lines if line.what == "kv cache").partition(";")[0]


def test_the_reason_of_a_grade_is_the_one_it_was_chosen_for():
    assert why_the_grade(planned(machine(24.0))) == "the finest that fits"
    assert why_the_grade(planned(machine(1.0))) == "since the cards do not hold all of the model"
    assert why_the_grade(planned(machine(1.0), Demand(keys="q8_0"))) == "set by hand"
    assert why_the_grade(planned(machine())) == "the finest that fits"


def test_a_card_too_small_for_one_layer_takes_only_the_head_or_nothing():
    assert planned(machine(0.1)).gpu_layers == 1
    assert planned(machine(0.02)).gpu_layers == 0


def test_experts_go_before_layers():
    found = planned(machine(1.70), shape=EXPERTS)
    # Without the experts of n layers: 50 + 10 x 236 + 4 - 90 n <= 1740 MiB from n = 8 on.
    assert found.settings["cpu_moe_n"] == 8 and found.gpu_layers is None
    assert found.warnings == ("the experts of 8 layers go to main memory, since the cards are too small for all",)


def test_experts_that_are_not_enough_leave_room_for_layers_only():
    found = planned(machine(0.8), shape=EXPERTS)
    # As q8_0 a layer is 10 + 136 MiB by then: of 819 MiB less 4 and 50 five fit.
    assert (found.settings["cpu_moe_n"], found.gpu_layers) == (10, 6)


@pytest.mark.parametrize(("setting", "kept"), [({"moe_in_ram": 4}, 4 * 90), ({"moe_in_ram": 99}, 900)])
def test_experts_that_a_person_keeps_in_main_memory(setting, kept):
    found = planned(machine(24), Demand(ctx=4096, **setting), EXPERTS)
    assert found.parts[-1].weights == (50 + kept) * MIB and "cpu_moe_n" not in found.settings


def test_feed_forward_parts_and_a_cache_in_main_memory():
    found = planned(machine(24), Demand(ctx=4096, dense_in_ram=5))
    assert found.parts[-1].weights == (50 + 5 * 60) * MIB
    found = planned(machine(24), Demand(ctx=4096, kv_in_ram=True))
    assert (found.parts[0].cache, found.parts[-1].cache) == (0, 2560 * MIB)


def test_several_cards_in_the_order_of_the_bus_as_few_as_will_do():
    found = planned(machine(1.5, 2.5, 8.0), Demand(ctx=4096, slots=1))
    assert found.settings.get("tensor_split") is None, "one card has room for all"
    assert found.env == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "2"}
    found = planned(machine(2.0, 2.0, 2.0), Demand(ctx=4096, slots=1))
    # 3610 MiB of layers and head, two cards of 2044 each: 5 layers (1780) and 5 with the head (1830).
    assert found.settings["tensor_split"] == "5,6" and found.grade == Grade()
    assert found.env == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "0,1"}


@pytest.mark.parametrize("here", [machine(2.0, 2.0, doubt="there are cards of several vendors"),
                                  machine(2.0, 2.0, workers=(0.0,))])
def test_on_any_doubt_nothing_is_pinned(here):
    found = planned(here, Demand(ctx=4096, slots=1))
    assert found.env == {} and "tensor_split" not in found.settings and found.grade == Grade()


def test_cards_without_numbers_are_not_pinned():
    here = machine(2.0, 2.0)
    here = replace(here, cards=tuple(replace(card, index=None) for card in here.cards))
    assert planned(here, Demand(ctx=4096, slots=1)).env == {}


def test_a_worker_that_tells_nothing_makes_that_nothing_is_placed():
    found = planned(replace(machine(1.0), silent=("far:1",)))
    assert (found.gpu_layers, found.env) == (None, {})
    assert found.warnings[0] == "the RPC worker far:1 serves another client, so its memory is not known"
    assert found.warnings[1].startswith("rpc_servers says where")
    assert {line.what: line.value for line in found.lines}["worker far:1"] == "unknown"


def test_workers_add_their_memory():
    assert planned(machine(2.0), Demand(ctx=4096, slots=1)).grade != Grade()
    found = planned(machine(2.0, workers=(2.0,)), Demand(ctx=4096, slots=1))
    assert found.grade == Grade() and [part.place for part in found.parts] == ["far0:50052", "card0", MAIN_MEMORY]
    assert planned(machine(workers=(4.0, 4.0)), Demand(ctx=4096, slots=1)).parts[0].place == "far0:50052"


def test_an_engine_with_workers_spreads_over_all_that_there_is():
    found = planned(machine(8.0, workers=(8.0, 16.0)), Demand(ctx=4096, slots=1))
    # One card has room for all 11 pieces, and yet: a quarter, a half, a quarter.
    assert [(part.place, part.layers) for part in found.parts] == [
        ("far0:50052", 3), ("far1:50052", 5), ("card0", 3), (MAIN_MEMORY, 0)]
    assert (found.env, found.gpu_layers, "tensor_split" in found.settings) == ({}, None, False), "the engine divides it"
    told = {line.what: (line.value, line.reason, line.setting) for line in found.lines}
    assert told["worker far1:50052"] == ("16.0 GiB of 16.0 GiB", "what is free of it", "rpc_servers")


def test_spilling_beside_workers_counts_them():
    alone, helped = planned(machine(1.0)), planned(machine(1.0, workers=(0.7,)))
    # As q8_0 a layer takes 236 MiB: of 1020 MiB the head and four, of 713 three more.
    assert (alone.gpu_layers, helped.gpu_layers) == (5, 8)
    assert helped.warnings[0].startswith("3 of 11 layers go to main memory, since the workers and the cards are too sm")


def test_a_worker_that_is_gone_is_planned_without_and_named():
    here = replace(machine(24, ram=0.5), gone=(("far:1", "Connection refused"),))
    found = planned(here, Demand(ctx=4096, slots=1))
    assert found.parts == planned(machine(24, ram=0.5), Demand(ctx=4096, slots=1)).parts
    assert found.warnings == ("the RPC worker far:1 does not answer (Connection refused): the plan is without it, and "
                              "a load is refused until it does",)
    refused = plan(TEN, Demand(ctx=4096), replace(here, cards=()))
    assert isinstance(refused, Refusal) and refused.levers[0] == "start the RPC worker far:1, which does not answer"
    assert ("worker far:1", "nothing") in {(line.what, line.value) for line in refused.lines}


def test_a_refusal_counts_the_workers():
    refused = plan(TEN, Demand(ctx=65536), machine(ram=1.0, workers=(1.0, 2.0)))
    assert isinstance(refused, Refusal) and refused.limit == 4 * GIB
    assert refused.where == "90% of the workers and main memory together"


@pytest.mark.parametrize(("demand", "card", "expected"), [
    (Demand(ctx=4096), 24, (4096, 4)), (Demand(ctx=4096, slots=7), 24, (4096, 7)), (Demand(ctx=4096), 6.1, (4096, 2)),
    (Demand(ctx=999_999), 90, (65536, 2)), (Demand(ctx=0), 90, (65536, 2)),
    (Demand(ctx=4096, stretch=2.0), 4, (4096, 1)),
    (Demand(ctx=100_000, stretch=1.5), 99, (98304, 1))])
def test_context_and_slots(demand, card, expected):
    found = planned(machine(card), demand)
    assert (found.ctx, found.slots) == expected
    assert (found.settings["default_ctx"], found.settings["slots"]) == expected


def test_a_context_that_nobody_asked_for_gets_smaller_but_not_below_a_good_one():
    # 65536 tokens as q4_0 take 11.25 GiB. With 7 GiB: (7168 - 1050 - 4...) MiB / 180 KiB a token.
    found = planned(machine(7.0), Demand())
    assert 32_000 < found.ctx < 35_000 and found.ctx % 256 == 0 and found.grade == Grade("q4_0", "q4_0")
    assert found.warnings == (
        f"the context is {found.ctx} tokens, less than the 65536 that the model was trained with",)
    found = planned(machine(3.0), Demand())
    assert found.ctx == 16384 and found.gpu_layers is not None, "16384 tokens do not fit: layers go to main memory"


def test_one_that_was_asked_for_never_does():
    assert planned(machine(3.0), Demand(ctx=40_000)).ctx == 40_000


def test_main_memory_alone():
    found = planned(machine())
    assert (found.slots, found.gpu_layers, found.env, len(found.parts)) == (1, None, {}, 1)
    assert found.total == (1000 + 100) * MIB + 2560 * MIB + found.parts[0].compute + PROGRAM
    assert planned(machine(ram=2.5)).grade == Grade("q8_0", "q8_0")
    assert planned(machine(ram=1.5), Demand()).ctx == 2048


def test_nothing_known_of_memory_refuses_nothing():
    here = replace(machine(), ram=None, main=None, free=None)
    assert planned(here, Demand(ctx=65536, slots=99)).grade == Grade()


@pytest.mark.parametrize(("here", "demand", "shape", "levers"), [
    (machine(ram=1.0), Demand(ctx=4096), TEN,
     ("take a smaller build of the model, or a machine with more memory or a card",)),
    (machine(ram=1.5), Demand(ctx=32768, slots=2, keys="f16"), TEN,
     ("set a smaller ctx: 256 would fit", "set fewer slots", "leave cache_type empty, or set q4_0",
      "take a smaller build of the model, or a machine with more memory or a card")),
    # At 7936 tokens a layer takes 100 + 139.5 MiB: four and the head on the card, six in main memory.
    (machine(1.0, ram=1.5), Demand(ctx=32768), TEN,
     ("set a smaller ctx: 7936 would fit", "take a smaller build of the model")),
])
def test_what_can_never_fit_is_refused_with_numbers_and_levers(here, demand, shape, levers):
    found = plan(shape, demand, here)
    assert isinstance(found, Refusal) and found.levers == levers
    assert found.needed > found.limit == here.ram + sum(card.budget for card in here.cards)
    assert [line.what for line in found.lines] == ["weights", "kv cache", "compute", "program", "needed",
                                                    "to be had"]


@pytest.mark.parametrize("placed", ["tensor_split", "extra_args"])
def test_who_places_it_by_hand_is_left_alone(placed):
    found = planned(machine(1.0, 1.0), Demand(ctx=4096, placed=(placed,)))
    assert (found.gpu_layers, found.env) == (None, {}) and "tensor_split" not in found.settings
    assert found.grade == Grade("q4_0", "q4_0")
    assert found.warnings[0] == f"{placed} says where the model goes, so nothing is planned there"
    assert planned(machine(8.0, 8.0), Demand(ctx=4096, placed=(placed,))).warnings[1:] == ()
    assert "may be too small" in planned(machine(0.5), Demand(ctx=4096, placed=(placed,))).warnings[1]


@pytest.mark.parametrize(("asked", "main", "cap"), [
    (8192, 100 * GIB, None), (8192, 10 * GIB, 3072), (-1, 10 * GIB, None), (0, 10 * GIB, None), (3072, 10 * GIB, None)])
def test_the_prompt_cache_takes_at_most_its_share(asked, main, cap):
    here = replace(machine(), main=main)
    assert planned(here, Demand(ctx=4096, cache_ram=asked)).settings.get("cache_ram_mb") == cap


def test_projector_and_draft_lie_beside_it_on_the_first_card():
    draft = replace(TEN, layers=TEN.layers[:1])
    found = planned(machine(24), Demand(ctx=4096, slots=1, projector=300 * MIB, draft=draft))
    # The draft: 100 + 50 + 50 MiB of weights, 256 MiB of cache, 4 MiB for a pass.
    assert found.parts[0].beside == (300 + 200 + 256 + 4) * MIB


def test_a_small_head_width_has_no_packed_grades():
    odd = replace(TEN, key_width=80, value_width=80)
    found = planned(machine(3.0), shape=odd)
    assert found.grade == Grade() and found.gpu_layers is not None


def test_an_embedding_model_reads_its_whole_context_at_once():
    shape = Shape("bert", 512, (Layer(weights=MIB),) * 2, MIB, MIB, width=384, feed_forward=1536, heads=12,
                  key_width=32, value_width=32, embedding=True)
    found = planned(machine(24), Demand(ctx=16384), shape)
    assert (found.ctx, found.slots) == (512, 1) and found.parts[0].cache == 0


def test_every_line_has_a_reason_and_the_settings_that_exist():
    from blazar.config.registry import SETTINGS
    from blazar.config.tables.overrides import FIELDS
    known = set(SETTINGS) | {field.name for field in FIELDS}
    for here in (machine(), machine(24), machine(2.0, 2.0), machine(1.0), machine(2.0, workers=(2.0,))):
        for line in planned(here, shape=EXPERTS).lines:
            assert line.value and line.reason, line
            assert set(filter(None, line.setting.split(", "))) <= known, line


def test_plain_values_hold_everything():
    told = planned(machine(2.0, 2.0), Demand(ctx=4096, slots=1)).to_dict()
    assert told["fits"] and told["settings"]["tensor_split"] == "5,6" and told["parts"][0]["total"] > 0
    refused = plan(TEN, Demand(ctx=4096), machine(ram=1.0)).to_dict()
    assert not refused["fits"] and refused["levers"]


def test_known_models_have_the_sizes_that_are_published():
    # Files of these builds on huggingface.co: 4.92 GB, 42.5 GB, 18.6 GB, 404 GB.
    for name, size in (("llama-3.1-8b", 4.92), ("llama-3.3-70b", 42.5), ("qwen3-30b-a3b", 18.6), ("deepseek-r1", 404)):
        assert abs(KNOWN[name].shape().weights / 1e9 / size - 1) < 0.06, name


def test_one_row_for_keys_and_values_has_one_grade():
    latent = replace(TEN, layers=(Layer(weights=100 * MIB, keys=32768),) * 10)
    found = {planned(machine(size), shape=latent).grade for size in (3.6, 2.5, 2.38, 2.3, 2.1, 1.9, 1.8)}
    assert found == {Grade(), Grade("q8_0", "q8_0"), Grade("q4_0", "q4_0")}
    set_by_hand = planned(machine(24), Demand(ctx=4096, keys="q8_0", values="q4_0"), latent)
    assert "cache_type_k and cache_type_v have to be the same" in set_by_hand.warnings[0]
