"""What the settings want, and the guard of main memory."""

import pytest

from blazar.config.config import Config
from blazar.config.effective import effective
from blazar.errors import FitRefused
from blazar.planner.demand import ALL_LAYERS, Demand, demand_of
from blazar.planner.guard import guarded
from blazar.planner.installed import refused

GIB = 1 << 30


def demand(**settings):
    return demand_of(effective(Config.from_dict(settings), "solo:q4_0"))


def test_an_all_default_config():
    assert demand() == Demand(ctx=16384)


@pytest.mark.parametrize(("settings", "expected"), [
    ({"default_ctx": 0}, {"ctx": 0}), ({"slots": 3}, {"slots": 3}), ({"slots": 3, "deterministic": True}, {"slots": 1}),
    ({"cache_type": "q8_0"}, {"keys": "q8_0", "values": "q8_0"}),
    ({"cache_type": "q8_0", "cache_type_v": "q4_0"}, {"keys": "q8_0", "values": "q4_0"}),
    ({"cache_type_k": "q8_0"}, {"keys": "q8_0"}), ({"ubatch_size": 256}, {"batch": 256}),
    ({"kv_unified": False}, {"unified": False}), ({"swa_full": True}, {"swa_full": True}),
    ({"no_kv_offload": True}, {"kv_in_ram": True}), ({"cpu_moe_n": 5}, {"moe_in_ram": 5}),
    ({"tensor_preset": "moe-cpu-offload", "cpu_moe_n": 5}, {"moe_in_ram": ALL_LAYERS}),
    ({"cpu_ffn_n": 7}, {"dense_in_ram": 7}), ({"ctx_extend": 2.0}, {"stretch": 2.0}),
    ({"cache_ram_mb": -1}, {"cache_ram": -1}), ({"spawn_mem_guard": False}, {"guard": False}),
    ({"tensor_split": "3,1"}, {"placed": ("tensor_split",)}), ({"split_mode": "row"}, {"placed": ("split_mode",)}),
    ({"devices": ["CUDA0"]}, {"placed": ("devices",)}), ({"main_gpu": 0}, {"placed": ("main_gpu",)}),
    ({"override_tensor": ["exps=CPU"]}, {"placed": ("override_tensor",)}),
    ({"engine_env": {"CUDA_VISIBLE_DEVICES": "0"}}, {"placed": ("engine_env",)}), ({"engine_env": {"X": "0"}}, {}),
    ({"model_overrides": {"solo": {"ctx": 512, "slots": 2, "cache_type": "q4_0"}}},
     {"ctx": 512, "slots": 2, "keys": "q4_0", "values": "q4_0"}),
    ({"model_overrides": {"solo": {"extra_args": ["--n-gpu-layers", "3"]}}}, {"placed": ("extra_args",)}),
    ({"model_overrides": {"solo": {"extra_args": ["--verbose"]}}}, {}),
])
def test_settings(settings, expected):
    assert demand(**settings) == Demand(**{"ctx": 16384, **expected})


@pytest.mark.parametrize(("size", "free", "passes"), [
    (4 * GIB, 2 * GIB + (512 << 20), True), (4 * GIB, 2 * GIB + (512 << 20) - 1, False), (0, 512 << 20, True),
    (4 * GIB, None, True)])
def test_the_guard_wants_half_of_the_model_and_half_a_gib(size, free, passes):
    assert (guarded(size, free) is None) is passes


def test_a_refusal_in_words():
    refusal = guarded(8 * GIB, GIB)
    assert refusal is not None
    error = refused("solo:q4_0", refusal)
    assert isinstance(error, FitRefused) and error.status == 507
    assert error.message == (
        "solo:q4_0 does not fit: it needs 4.5 GiB, and main memory that is free now is 1.0 GiB; unload another model "
        "with `blazar stop`; set spawn_mem_guard = false to try all the same, or see `blazar fit solo:q4_0`")
