"""Safetensors models byte by byte, right or wrong."""

import json
import math
import struct
from pathlib import Path
from typing import Any

CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64, "num_hidden_layers": 2,
          "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 2048, "vocab_size": 99}
WIDTHS = {"F32": 4, "BF16": 2, "F16": 2}


def shard_bytes(tensors: dict[str, list[int]], kind: str = "BF16", fill: bytes = b"\0") -> bytes:
    """A whole file with these tensors, by their shapes."""
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, shape in tensors.items():
        size = math.prod(shape) * WIDTHS[kind]
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [at, at + size]}
        at += size
    return with_header(header, fill * at)


def with_header(header: Any, weights: bytes) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + weights


def write_model(folder: Path, shards: int = 2, **config: Any) -> Path:
    """A model with one tensor a shard, and an index when there are several."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({**CONFIG, **config}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{% if tools %}{% endif %}"}))
    (folder / "tokenizer.json").write_text("{}")
    (folder / "README.md").write_text("not part of it")
    names = {f"t{number}": f"model-{number + 1:05}-of-{shards:05}.safetensors" for number in range(shards)}
    if shards == 1:
        names = {"t0": "model.safetensors"}
    else:
        (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))
    for number, (tensor, name) in enumerate(names.items()):
        (folder / name).write_bytes(shard_bytes({tensor: [8, 4]}, fill=bytes([number])))
    return folder
