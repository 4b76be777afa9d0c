"""Models of many architectures whose weights are all zero: engines load them in earnest, and they take no disk.

A file's weights are a hole of its length, so a model of gigabytes costs kilobytes. Their text is noise.
"""

import math
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from blazar.store.gguf_types import TENSOR_TYPES
from tests.support.raw_gguf import ARRAY, F32, F32_VALUE, head, pair, tensor, value

Q8_0, I32_VALUE = 8, 5
Tensors = list[tuple[str, list[int], int]]
TOKEN = ("<unk>", "<s>", "</s>")


def write_shaped(path: Path, kind: str, vocabulary: int = 2000, matrices: int = Q8_0, **sizes: int) -> Path:
    """A model of one of KINDS; `sizes` replace its usual ones, `matrices` is the type of its matrices."""
    architecture, usual, make = KINDS[kind]
    wanted = {**usual, **sizes}
    metadata, tensors = make(vocabulary, **wanted)
    tensors = [(name, dimensions, matrices if type == Q8_0 else type) for name, dimensions, type in tensors]
    _write(path, architecture, metadata, tensors, vocabulary)
    return path


def _matrix(name: str, *dimensions: int, type: int = Q8_0) -> tuple[str, list[int], int]:
    return name, list(dimensions), type


def _norm(name: str, width: int) -> tuple[str, list[int], int]:
    return name, [width], F32


def _attention(place: str, width: int, heads: int, kv: int, head: int) -> Tensors:
    return [_matrix(f"{place}attn_q.weight", width, heads * head), _matrix(f"{place}attn_k.weight", width, kv * head),
            _matrix(f"{place}attn_v.weight", width, kv * head),
            _matrix(f"{place}attn_output.weight", heads * head, width), _norm(f"{place}attn_norm.weight", width),
            _norm(f"{place}ffn_norm.weight", width)]


def _dense(place: str, width: int, ff: int) -> Tensors:
    return [_matrix(f"{place}ffn_gate.weight", width, ff), _matrix(f"{place}ffn_up.weight", width, ff),
            _matrix(f"{place}ffn_down.weight", ff, width)]


def _experts(place: str, width: int, ff: int, count: int) -> Tensors:
    return [_matrix(f"{place}ffn_gate_inp.weight", width, count, type=F32),
            _matrix(f"{place}ffn_gate_exps.weight", width, ff, count),
            _matrix(f"{place}ffn_up_exps.weight", width, ff, count),
            _matrix(f"{place}ffn_down_exps.weight", ff, width, count)]


def _ends(width: int, vocabulary: int, tied: bool = False) -> Tensors:
    found = [_matrix("token_embd.weight", width, vocabulary), _norm("output_norm.weight", width)]
    return found if tied else [*found, _matrix("output.weight", width, vocabulary)]


def _common(layers: int, width: int, ff: int, heads: int, kv: int, head: int) -> dict[str, Any]:
    return {"block_count": layers, "embedding_length": width, "feed_forward_length": ff, "context_length": 131072,
            "attention.head_count": heads, "attention.head_count_kv": kv, "attention.key_length": head,
            "attention.value_length": head, "rope.dimension_count": head,
            "attention.layer_norm_rms_epsilon": 1e-5}


def _llama(vocabulary: int, layers: int, width: int, ff: int, heads: int, kv: int, head: int) -> Any:
    tensors = _ends(width, vocabulary)
    for number in range(layers):
        tensors += [*_attention(f"blk.{number}.", width, heads, kv, head), *_dense(f"blk.{number}.", width, ff)]
    return _common(layers, width, ff, heads, kv, head), tensors


def _moe(vocabulary: int, experts: int, used: int, layers: int, width: int, ff: int, **attention: int) -> Any:
    tensors = _ends(width, vocabulary)
    for number in range(layers):
        tensors += [*_attention(f"blk.{number}.", width, **attention), *_experts(f"blk.{number}.", width, ff, experts)]
    keys = _common(layers, width, ff, **attention)
    return {**keys, "expert_count": experts, "expert_used_count": used}, tensors


def _gemma3(vocabulary: int, window: int, layers: int, width: int, ff: int, heads: int, kv: int, head: int) -> Any:
    tensors = _ends(width, vocabulary, tied=True)
    for number in range(layers):
        place = f"blk.{number}."
        tensors += [*_attention(place, width, heads, kv, head), *_dense(place, width, ff),
                    _norm(f"{place}attn_q_norm.weight", head), _norm(f"{place}attn_k_norm.weight", head),
                    _norm(f"{place}post_attention_norm.weight", width), _norm(f"{place}post_ffw_norm.weight", width)]
    return {**_common(layers, width, ff, heads, kv, head), "attention.sliding_window": window}, tensors


def _deepseek2(vocabulary: int, layers: int, width: int, ff: int, heads: int, latent: int, rope: int, head: int,
               experts: int, used: int, expert_ff: int) -> Any:
    tensors = _ends(width, vocabulary)
    for number in range(layers):
        place = f"blk.{number}."
        tensors += [_norm(f"{place}attn_norm.weight", width), _norm(f"{place}ffn_norm.weight", width),
                    _norm(f"{place}attn_q_a_norm.weight", latent), _norm(f"{place}attn_kv_a_norm.weight", latent),
                    _matrix(f"{place}attn_q_a.weight", width, latent),
                    _matrix(f"{place}attn_q_b.weight", latent, heads * (head + rope)),
                    _matrix(f"{place}attn_kv_a_mqa.weight", width, latent + rope),
                    _matrix(f"{place}attn_k_b.weight", head, latent, heads),
                    _matrix(f"{place}attn_v_b.weight", latent, head, heads),
                    _matrix(f"{place}attn_output.weight", heads * head, width)]
        tensors += _dense(place, width, ff) if number < 1 else [
            *_experts(place, width, expert_ff, experts), _matrix(f"{place}ffn_gate_shexp.weight", width, expert_ff),
            _matrix(f"{place}ffn_up_shexp.weight", width, expert_ff),
            _matrix(f"{place}ffn_down_shexp.weight", expert_ff, width)]
    keys = {**_common(layers, width, ff, heads, 1, latent + rope), "attention.value_length": latent,
            "attention.key_length_mla": head + rope, "attention.value_length_mla": head, "rope.dimension_count": rope,
            "attention.q_lora_rank": latent, "attention.kv_lora_rank": latent, "leading_dense_block_count": 1,
            "expert_count": experts, "expert_used_count": used, "expert_feed_forward_length": expert_ff,
            "expert_shared_count": 1, "expert_weights_scale": 1.0}
    return keys, tensors


def _mamba(vocabulary: int, layers: int, width: int, inner: int, state: int, kernel: int, rank: int) -> Any:
    tensors = _ends(width, vocabulary)
    for number in range(layers):
        place = f"blk.{number}."
        tensors += [_norm(f"{place}attn_norm.weight", width), _matrix(f"{place}ssm_in.weight", width, 2 * inner),
                    _matrix(f"{place}ssm_conv1d.weight", kernel, inner, type=F32),
                    _norm(f"{place}ssm_conv1d.bias", inner), _matrix(f"{place}ssm_x.weight", inner, rank + 2 * state),
                    _matrix(f"{place}ssm_dt.weight", rank, inner), _norm(f"{place}ssm_dt.bias", inner),
                    _matrix(f"{place}ssm_a", state, inner, type=F32), _norm(f"{place}ssm_d", inner),
                    _matrix(f"{place}ssm_out.weight", inner, width)]
    keys = {"block_count": layers, "embedding_length": width, "feed_forward_length": 0, "context_length": 131072,
            "attention.head_count": 0, "attention.layer_norm_rms_epsilon": 1e-5, "ssm.conv_kernel": kernel,
            "ssm.inner_size": inner, "ssm.state_size": state, "ssm.time_step_rank": rank}
    return keys, tensors


def _lfm2(vocabulary: int, layers: int, width: int, ff: int, heads: int, kv: int, head: int, cache: int) -> Any:
    tensors = [_matrix("token_embd.weight", width, vocabulary), _norm("token_embd_norm.weight", width)]
    kept = [kv if number % 3 == 2 else 0 for number in range(layers)]
    for number, own in enumerate(kept):
        place = f"blk.{number}."
        tensors += _dense(place, width, ff)
        if own:
            tensors += [*_attention(place, width, heads, kv, head), _norm(f"{place}attn_q_norm.weight", head),
                        _norm(f"{place}attn_k_norm.weight", head)]
        else:
            tensors += [_norm(f"{place}attn_norm.weight", width), _norm(f"{place}ffn_norm.weight", width),
                        _matrix(f"{place}shortconv.conv.weight", cache, width, type=F32),
                        _matrix(f"{place}shortconv.in_proj.weight", width, 3 * width),
                        _matrix(f"{place}shortconv.out_proj.weight", width, width)]
    keys = {**_common(layers, width, ff, heads, kv, head), "attention.head_count_kv": kept, "shortconv.l_cache": cache}
    return keys, tensors


KINDS: dict[str, tuple[str, dict[str, int], Callable[..., Any]]] = {
    # name: architecture, usual sizes, maker
    "grouped": ("llama", {"layers": 6, "width": 1024, "ff": 3584, "heads": 16, "kv": 4, "head": 64}, _llama),
    "experts": ("llama", {"layers": 4, "width": 1024, "ff": 1536, "heads": 16, "kv": 8, "head": 64, "experts": 8,
                          "used": 2}, _moe),
    "windows": ("gemma3", {"layers": 12, "width": 768, "ff": 2048, "heads": 4, "kv": 1, "head": 256, "window": 512},
                _gemma3),
    "latent": ("deepseek2", {"layers": 4, "width": 1024, "ff": 2816, "heads": 16, "latent": 512, "rope": 64,
                             "head": 128, "experts": 8, "used": 2, "expert_ff": 704}, _deepseek2),
    "recurrent": ("mamba", {"layers": 8, "width": 768, "inner": 1536, "state": 16, "kernel": 4, "rank": 64}, _mamba),
    "hybrid": ("lfm2", {"layers": 9, "width": 1024, "ff": 2560, "heads": 16, "kv": 8, "head": 64, "cache": 3}, _lfm2),
}


def _write(path: Path, architecture: str, metadata: dict[str, Any], tensors: Tensors, vocabulary: int) -> None:
    tokens = [*TOKEN, *(f"<0x{byte:02X}>" for byte in range(256))]
    tokens += [f"t{number}" for number in range(len(tokens), vocabulary)]
    kinds = [2, 3, 3, *[6] * 256, *[1] * (len(tokens) - 259)]
    pairs = [value("general.architecture", architecture), value("general.name", path.stem),
             value("tokenizer.ggml.model", "llama"), value("tokenizer.ggml.tokens", tokens),
             _array("tokenizer.ggml.scores", F32_VALUE, "f", [float(-number) for number in range(len(tokens))]),
             _array("tokenizer.ggml.token_type", I32_VALUE, "i", kinds), value("tokenizer.ggml.bos_token_id", 1),
             value("tokenizer.ggml.eos_token_id", 2), value("tokenizer.ggml.unknown_token_id", 0)]
    pairs += [value(f"{architecture}.{name}", given) for name, given in metadata.items()]
    listed, offset = [], 0
    for name, dimensions, kind in tensors:
        listed.append(tensor(name, dimensions, kind, offset))
        _, block, size = TENSOR_TYPES[kind]
        offset += -(-(math.prod(dimensions) // block * size) // 32) * 32
    raw = head(len(listed), len(pairs)) + b"".join(pairs) + b"".join(listed)
    with open(path, "wb") as file:
        file.write(raw)
        file.truncate(-(-len(raw) // 32) * 32 + offset)


def _array(key: str, kind: int, letter: str, numbers: list[Any]) -> bytes:
    return pair(key, ARRAY, struct.pack(f"<IQ{len(numbers)}{letter}", kind, len(numbers), *numbers))
