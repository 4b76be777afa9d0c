"""Which layers keep what, out of headers as publishers write them."""

import json
import math
from dataclasses import astuple

import pytest

from blazar.hardware.census import Census
from blazar.hardware.cpu import Cpu
from blazar.hardware.memory import Memory
from blazar.planner.demand import Demand
from blazar.planner.machine import machine_of
from blazar.planner.planner import plan
from blazar.store.gguf import Header
from blazar.store.shape import Shape, read_shape, shape_of
from tests.support import raw_gguf
from tests.support.raw_gguf import Q4_0, tensor, value


def header(architecture, tensors=None, arrays=None, **keys):
    """Two underscores stand for a dot."""
    metadata = {f"{architecture}.{name.replace('__', '.')}": one for name, one in keys.items()}
    kept = {f"{architecture}.{name.replace('__', '.')}": tuple(one) for name, one in (arrays or {}).items()}
    return Header(3, 0, {"general.architecture": architecture, **metadata}, kept, tensor_bytes=tensors or {})


def kept(*arguments, **keys):
    """(keys, values, window, state) of each layer."""
    layers = shape_of(header(*arguments, **keys)).layers
    return [(layer.keys, layer.values, layer.window, layer.state) for layer in layers]


LLAMA = {"block_count": 2, "embedding_length": 4096, "attention__head_count": 32, "attention__head_count_kv": 8}


def test_grouped_heads():
    assert kept("llama", **LLAMA) == [(1024, 1024, 0, 0)] * 2
    plain = {name: one for name, one in LLAMA.items() if name != "attention__head_count_kv"}
    assert kept("llama", **plain) == [(4096, 4096, 0, 0)] * 2
    assert kept("qwen3", **LLAMA, attention__key_length=128, attention__value_length=96) == [(1024, 768, 0, 0)] * 2


def test_heads_of_each_layer():
    arrays = {"attention__head_count_kv": [8, 0, 4], "attention__head_count": [32, 0, 32]}
    assert kept("deci", arrays=arrays, **{**LLAMA, "block_count": 3}) == [
        (1024, 1024, 0, 0), (0, 0, 0, 0), (512, 512, 0, 0)]


def test_compressed_rows():
    keys = {"block_count": 1, "embedding_length": 7168, "attention__head_count": 128, "attention__head_count_kv": 1,
            "attention__key_length": 576, "attention__value_length": 512}
    assert kept("deepseek2", **keys, attention__key_length_mla=192, attention__value_length_mla=128) == [
        (576, 0, 0, 0)]
    assert kept("deepseek2", **keys) == [(576, 512, 0, 0)], "older files, without the two keys"


@pytest.mark.parametrize(("architecture", "keys", "windows"), [
    ("gemma2", {}, [4096, 0, 4096, 0]), ("gemma2", {"attention__sliding_window": 1000}, [1000, 0, 1000, 0]),
    ("gemma3", {"attention__sliding_window": 512}, [512, 512, 512, 512]), ("gemma3", {}, [0, 0, 0, 0]),
    ("gpt-oss", {"attention__sliding_window": 128}, [128, 0, 128, 0]),
    ("llama4", {}, [8192, 8192, 8192, 0]), ("llama4", {"attention__sliding_window": 0}, [0, 0, 0, 0]),
    ("smallthinker", {"attention__sliding_window": 9}, [0, 9, 9, 9]),
    ("exaone4", {"attention__sliding_window": 4096}, [0, 0, 0, 0]),  # only the model of 64 layers has windows
    ("llama", {"attention__sliding_window": 4096}, [0, 0, 0, 0]),  # written by converters, used by no engine
    ("cohere2", {"attention__sliding_window": 7, "attention__sliding_window_pattern": 2}, [7, 0, 7, 0]),
])
def test_sliding_windows_by_architecture(architecture, keys, windows):
    assert [row[2] for row in kept(architecture, **{**LLAMA, "block_count": 4}, **keys)] == windows


def test_sliding_windows_that_the_file_lists_and_their_own_width():
    rows = kept("gemma4", arrays={"attention__sliding_window_pattern": [True, False, True]},
                **{**LLAMA, "block_count": 3}, attention__sliding_window=512, attention__key_length=512,
                attention__value_length=512, attention__key_length_swa=256, attention__value_length_swa=256)
    assert rows == [(2048, 2048, 512, 0), (4096, 4096, 0, 0), (2048, 2048, 512, 0)]


def test_layers_that_use_what_others_keep():
    assert [row[0] for row in kept("gemma4", **{**LLAMA, "block_count": 4}, attention__shared_kv_layers=3)] == [
        1024, 0, 0, 0]
    assert [row[0] for row in kept("glm4moe", **{**LLAMA, "block_count": 3}, nextn_predict_layers=1)] == [1024, 1024, 0]


MAMBA = {"ssm__conv_kernel": 4, "ssm__inner_size": 3072, "ssm__state_size": 16}
STATE = 4 * (3 * 3072 + 16 * 3072)


def test_states():
    assert kept("mamba", block_count=2, embedding_length=1536, **MAMBA) == [(0, 0, 0, STATE)] * 2
    # (4 - 1) x (3072 + 2 x 8 x 16) + 16 x 3072, four bytes each
    assert kept("mamba2", block_count=1, embedding_length=1536, **MAMBA, ssm__group_count=8) == [
        (0, 0, 0, 4 * (3 * (3072 + 256) + 16 * 3072))]
    assert kept("rwkv7", block_count=1, embedding_length=2048, wkv__head_size=64, token_shift_count=2) == [
        (0, 0, 0, 4 * (2 * 2048 + 2048 * 64))]
    assert kept("jamba", arrays={"attention__head_count_kv": [0, 8]}, **LLAMA, **MAMBA) == [
        (0, 0, 0, STATE), (1024, 1024, 0, 0)]
    assert kept("lfm2", arrays={"attention__head_count_kv": [0, 8]}, **LLAMA, shortconv__l_cache=3) == [
        (0, 0, 0, 4 * 2 * 4096), (1024, 1024, 0, 0)]
    assert kept("falcon-h1", **{**LLAMA, "block_count": 1}, **MAMBA) == [(1024, 1024, 0, STATE)]
    assert [row[3] > 0 for row in kept("qwen3next", **{**LLAMA, "block_count": 8}, **MAMBA)] == [True] * 3 + [
        False] + [True] * 3 + [False]
    rows = kept("qwen3next", arrays={"attention__recurrent_layers": [False, True]}, **LLAMA, **MAMBA)
    assert [row[3] > 0 for row in rows] == [False, True]
    rows = kept("nemotron_h", arrays={"attention__head_count_kv": [0, 0, 8], "feed_forward_length": [0, 99, 0]},
                **{**LLAMA, "block_count": 3}, **MAMBA)
    assert rows == [(0, 0, 0, STATE), (0, 0, 0, 0), (1024, 1024, 0, 0)]


def test_embedding_models_keep_nothing():
    found = shape_of(header("bert", **LLAMA))
    assert found.embedding and [layer.keys for layer in found.layers] == [0, 0]
    assert shape_of(header("qwen3", **LLAMA, pooling_type=3)).embedding
    assert not shape_of(header("qwen3", **LLAMA, pooling_type=0)).embedding


TENSORS = {"token_embd.weight": 1000, "output.weight": 2000, "output_norm.weight": 7, "rope_freqs.weight": 5,
           "blk.0.attn_q.weight": 10, "blk.0.ffn_up.weight": 20, "blk.0.ffn_norm.weight": 1,
           "blk.0.ffn_gate_inp.weight": 3,
           "blk.1.attn_q.weight": 10, "blk.1.ffn_up_exps.weight": 100, "blk.1.ffn_down_exps.weight": 200,
           "blk.1.ffn_up_shexp.weight": 40, "blk.7.attn_q.weight": 4}


def test_weights_by_where_they_go():
    found = shape_of(header("llama", TENSORS, **LLAMA, vocab_size=99, context_length=8192))
    assert (found.entry, found.head, found.tied) == (1000, 2000 + 7 + 5 + 4, 0)
    assert [(layer.weights, layer.experts, layer.dense) for layer in found.layers] == [(34, 0, 20), (350, 300, 0)]
    assert found.weights == sum(TENSORS.values()) and found.experts == 300
    assert (found.vocabulary, found.context) == (99, 8192)
    del TENSORS["output.weight"]
    assert shape_of(header("llama", TENSORS, **LLAMA)).tied == 1000


def test_the_widest_feed_forward_part():
    assert shape_of(header("llama", **LLAMA, feed_forward_length=14336)).feed_forward == 14336
    assert shape_of(header("qwen3moe", **LLAMA, feed_forward_length=6144, expert_used_count=8,
                           expert_feed_forward_length=768)).feed_forward == 6144
    assert shape_of(header("llama", **LLAMA, feed_forward_length=14336, expert_used_count=2)).feed_forward == 28672


def test_it_comes_back_as_it_was():
    found = shape_of(header("llama", TENSORS, **LLAMA))
    assert Shape.from_dict(found.to_dict()) == found


def test_a_file_and_a_set_of_files(tmp_path):
    def write(name, number, tensors):
        pairs = [value("general.architecture", "llama"), value("llama.block_count", 1), value("split.count", 2),
                 value("split.no", number)]
        raw = raw_gguf.head(len(tensors), len(pairs)) + b"".join(pairs) + b"".join(tensors)
        (tmp_path / name).write_bytes(raw + b"\0" * 4096)
        return tmp_path / name

    parts = [write("a", 0, [tensor("token_embd.weight", [64], Q4_0)]),
             write("b", 1, [tensor("blk.0.attn_q.weight", [64], Q4_0), tensor("output.weight", [32])])]
    found = read_shape(parts)
    assert (found.entry, found.layers[0].weights, found.head) == (36, 36, 128)
    assert found.rearranged == 36, "what is read by rows stays as it is"
    parts[1] = write("b", 1, [tensor("blk.0.attn_q.weight", [64], Q4_0)])
    assert read_shape(parts).rearranged == 0, "what lies behind all others is given back"


def test_odd_numbers_harm_nothing():
    assert shape_of(header("llama")).layers == ()
    assert len(shape_of(header("llama", block_count=10**9)).layers) == 1024
    assert kept("llama", arrays={"attention__head_count_kv": [-1, 8]}, **LLAMA)[0] == (0, 0, 0, 0)
    assert kept("llama", block_count=1, embedding_length=-5, attention__head_count="many") == [(0, 0, 0, 0)]
    assert kept("llama", arrays={"attention__head_count_kv": [1.5, 2.5]}, **LLAMA)[0][0] in (0, 128, 1024)


NAMES = ("context_length", "block_count", "embedding_length", "feed_forward_length", "attention.head_count",
         "attention.head_count_kv", "attention.key_length", "attention.value_length", "attention.sliding_window",
         "attention.sliding_window_pattern", "attention.shared_kv_layers", "attention.recurrent_layers",
         "expert_used_count", "expert_feed_forward_length", "nextn_predict_layers", "vocab_size", "pooling_type",
         "full_attention_interval", "wkv.head_size", "shortconv.l_cache", "kda.head_dim", "ssm.conv_kernel",
         "ssm.inner_size", "ssm.state_size", "ssm.group_count")
LIES = (0, -1, 2**31, 2**63 - 1, 2**64 - 1, -2**63, 0.5, math.nan, math.inf, -math.inf, True, "x", (), (4, 4, 4), (-1,),
        (2**64 - 1, 0, 2**63), (math.nan, math.inf, -math.inf), (True, False), (0,))
"""What a file may hold where a size belongs; tuples stand for arrays."""


@pytest.mark.parametrize("architecture", ["llama", "gemma3", "mamba", "rwkv7", "qwen3next", "lfm2", "jamba", "bert",
                                          "deepseek2", "kimi-linear", "falcon-h1", "nemotron_h", "gemma3n", "other"])
def test_a_file_that_lies_is_planned_or_refused_in_words(architecture):
    """Alone and all together: no number stops the arithmetic, and no size comes out negative."""
    honest = {"block_count": 3, "embedding_length": 64, "attention.head_count": 4, "context_length": 4096}
    machines = (machine_of(Census(Cpu("x86_64"), Memory(total=8 << 30))), machine_of(Census(Cpu("x86_64"), Memory())))
    for lie in LIES:
        for told in (*([name] for name in NAMES), NAMES, (*NAMES[:1], *NAMES[2:])):
            given = {**honest, **dict.fromkeys(told, lie)}
            arrays = {f"{architecture}.{name}": one for name, one in given.items() if isinstance(one, tuple)}
            metadata = {f"{architecture}.{name}": one for name, one in given.items() if not isinstance(one, tuple)}
            shape = shape_of(Header(3, 0, {"general.architecture": architecture, **metadata}, arrays,
                                    tensor_bytes={"token_embd.weight": 4096, "blk.0.ffn_up.weight": 4096}))
            assert all(min(astuple(layer)) >= 0 for layer in shape.layers), (lie, told)
            for machine in machines:
                assert json.dumps(plan(shape, Demand(), machine).to_dict(), allow_nan=False)
