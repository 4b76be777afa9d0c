"""What an engine takes of main memory for itself."""

from dataclasses import replace

from blazar.planner.demand import Demand, demand_of
from blazar.planner.kv import Grade, Window
from blazar.planner.machine import Card, Machine
from blazar.planner.place import load_of
from blazar.planner.planner import plan
from blazar.planner.program import PROGRAM, checkpoint_bytes, program_bytes
from blazar.store.shape import Layer, Shape

PLAIN = Shape("llama", 8192, (Layer(weights=100, keys=512, values=512),) * 4, 10, 10, vocabulary=1000, merges=500)
# Three layers of four look back 1024 tokens: 2 KiB of f16 a token and layer.
WINDOWED = replace(PLAIN, layers=(*(Layer(keys=512, values=512, window=1024),) * 3, Layer(keys=512, values=512)))
RECURRENT = replace(PLAIN, layers=(Layer(state=5000), Layer(keys=512, values=512)))


def test_the_vocabulary_counts():
    assert program_bytes(PLAIN, Grade(), Window(8192)) == PROGRAM + 1000 * 170 + 500 * 240


def test_checkpoints_hold_what_layers_forget():
    assert checkpoint_bytes(PLAIN, Grade(), Window(8192)) == 0
    assert checkpoint_bytes(WINDOWED, Grade(), Window(8192)) == 3 * 1024 * 2048
    assert checkpoint_bytes(WINDOWED, Grade("q8_0", "q8_0"), Window(8192)) == 3 * 1024 * 1088
    assert checkpoint_bytes(WINDOWED, Grade(), Window(512)) == 3 * 512 * 2048, "no more than there is text"
    assert checkpoint_bytes(WINDOWED, Grade(), Window(8192, whole=True)) == 0
    assert checkpoint_bytes(RECURRENT, Grade(), Window(8192, whole=True)) == 5000


def test_each_slot_has_two_of_them_unless_fewer_are_allowed():
    one = 3 * 1024 * 2048
    bare = program_bytes(PLAIN, Grade(), Window(8192))
    for allowed, slots, expected in ((0, 1, 2), (0, 4, 8), (1, 4, 4), (32, 1, 2)):
        assert program_bytes(WINDOWED, Grade(), Window(8192, slots), allowed) - bare == expected * one
    demand = demand_of({"ctx_checkpoints": 1, "slots": 3, "default_ctx": 8192})
    assert load_of(WINDOWED, demand, Grade(), Window(8192, 3)).program - bare == 3 * one


def test_rearranged_weights_are_held_twice_where_a_processor_computes():
    shape, here = replace(PLAIN, rearranged=390), Machine((), (), None, None, None, rearranges=True)
    found = plan(shape, Demand(ctx=8192), here)
    assert (found.spare, found.resident - found.total) == (390, 390)
    assert next(line for line in found.lines if line.what == "kept twice").setting == "repack, load_mode"
    card = Card("card", 1 << 34, 1 << 34, 0)
    for demand, machine in ((Demand(ctx=8192), replace(here, rearranges=False)),
                            (Demand(ctx=8192), replace(here, cards=(card,))),
                            (demand_of({"repack": False}), here), (demand_of({"load_mode": "direct-io"}), here)):
        assert plan(shape, demand, machine).spare == 0


def test_it_lies_in_main_memory_and_is_told():
    found = plan(WINDOWED, Demand(ctx=8192), Machine((), (), None, None, None))
    assert found.parts[-1].program == program_bytes(WINDOWED, Grade(), Window(8192))
    line = next(line for line in found.lines if line.what == "program")
    assert (line.value, line.setting) == ("28.3 MiB", "ctx_checkpoints")
    assert "checkpoints of 6.0 MiB" in line.reason
