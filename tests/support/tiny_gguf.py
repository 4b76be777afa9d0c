"""A tiny model that real engines load: Llama architecture, random weights, a byte-level vocabulary. Its text is noise.

    python -m tests.support.tiny_gguf OUT.gguf ['{"seed": 7}']

Loading, tokenising, chat templates, grammars, streaming and embeddings take an engine's real code paths. Another
seed gives another model, so that swaps and evictions can be told apart.
"""

import functools
import importlib.util
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.support.real_engine import VENV

WIDTH, HEADS, FEED_FORWARD = 64, 4, 128
SPECIALS = ("<unk>", "<s>", "</s>", "<|im_start|>", "<|im_end|>")
WORDS = ("▁", "▁the", "▁a", "th", "he", "in", "er", "an", "the")

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tiny_gguf(path: Path | str, seed: int = 0, layers: int = 2, ctx: int = 4096, name: str = "tiny",
              file_type: int = 0, template: str = CHAT_TEMPLATE, pooling: int = 0) -> Path:
    """Write the model to `path` (half a megabyte) and return the path. Skips the test without gguf and numpy.

    With `pooling` (1 = mean) it is an embedding model. `file_type` is only what the file claims of its quantisation
    (0 = F32): the weights are always F32.
    """
    Path(path).write_bytes(_content(seed=seed, layers=layers, ctx=ctx, name=name, file_type=file_type,
                                    template=template, pooling=pooling))
    return Path(path)


@functools.cache
def _content(**facts: Any) -> bytes:
    """The model as bytes, made by the Python of .venv when this one has no gguf, as on Debian."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "tiny.gguf"
        if importlib.util.find_spec("gguf") is None and (VENV / "python").exists():
            subprocess.run([VENV / "python", "-m", "tests.support.tiny_gguf", file, json.dumps(facts)],
                           cwd=VENV.parent.parent, check=True)
        else:
            _write(file, **facts)
        return file.read_bytes()


def _write(path: Path, seed: int, layers: int, ctx: int, name: str, file_type: int, template: str,
           pooling: int) -> None:
    import pytest
    gguf = pytest.importorskip("gguf")
    numpy = pytest.importorskip("numpy")
    writer = gguf.GGUFWriter(str(path), "llama")
    _describe(writer, layers, ctx, name, file_type)
    if pooling:
        writer.add_pooling_type(gguf.PoolingType(pooling))
    _add_vocabulary(writer, gguf.TokenType, template)
    _add_weights(writer, numpy, seed, layers)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def vocabulary(kinds: Any) -> list[tuple[str, Any]]:
    """Tokens with their kinds: specials, one token for each byte, then a few words and the visible ASCII signs."""
    special = [(text, kinds.UNKNOWN if text == "<unk>" else kinds.CONTROL) for text in SPECIALS]
    single = [(f"<0x{byte:02X}>", kinds.BYTE) for byte in range(256)]
    return [*special, *single, *((text, kinds.NORMAL) for text in (*WORDS, *map(chr, range(0x21, 0x7F))))]


def _describe(writer: Any, layers: int, ctx: int, name: str, file_type: int) -> None:
    writer.add_name(name)
    writer.add_license("CC0-1.0")
    writer.add_context_length(ctx)
    writer.add_embedding_length(WIDTH)
    writer.add_block_count(layers)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(WIDTH // HEADS)
    writer.add_file_type(file_type)


def _add_vocabulary(writer: Any, kinds: Any, template: str) -> None:
    tokens = vocabulary(kinds)
    plain = len(tokens) - len(WORDS) - (0x7F - 0x21)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_tokenizer_pre("default")
    writer.add_token_list([text.encode() for text, _ in tokens])
    writer.add_token_scores([float(min(0, plain - number)) for number in range(len(tokens))])
    writer.add_token_types([int(kind) for _, kind in tokens])
    writer.add_unk_token_id(SPECIALS.index("<unk>"))
    writer.add_bos_token_id(SPECIALS.index("<s>"))
    writer.add_eos_token_id(SPECIALS.index("</s>"))
    writer.add_pad_token_id(SPECIALS.index("</s>"))
    writer.add_eot_token_id(SPECIALS.index("<|im_end|>"))  # without it a turn never ends
    writer.add_add_bos_token(True)
    writer.add_add_eos_token(False)
    writer.add_add_space_prefix(False)  # a blank after a control token would break grammars at their first step
    writer.add_chat_template(template)


def _add_weights(writer: Any, numpy: Any, seed: int, layers: int) -> None:
    random = numpy.random.default_rng(seed)
    entries = len(SPECIALS) + 256 + len(WORDS) + 0x7F - 0x21
    ones = numpy.ones(WIDTH, numpy.float32)
    block = {"attn_q": (WIDTH, WIDTH), "attn_k": (WIDTH, WIDTH), "attn_v": (WIDTH, WIDTH),
             "attn_output": (WIDTH, WIDTH), "ffn_gate": (FEED_FORWARD, WIDTH), "ffn_up": (FEED_FORWARD, WIDTH),
             "ffn_down": (WIDTH, FEED_FORWARD)}
    shapes = {"token_embd": (entries, WIDTH), "output": (entries, WIDTH)}
    for layer in range(layers):
        shapes |= {f"blk.{layer}.{part}": shape for part, shape in block.items()}
        writer.add_tensor(f"blk.{layer}.attn_norm.weight", ones)
        writer.add_tensor(f"blk.{layer}.ffn_norm.weight", ones)
    writer.add_tensor("output_norm.weight", ones)
    for tensor, shape in shapes.items():
        writer.add_tensor(f"{tensor}.weight", (random.standard_normal(shape) * 0.05).astype(numpy.float32))


if __name__ == "__main__":
    print(tiny_gguf(sys.argv[1], **json.loads(sys.argv[2]) if len(sys.argv) > 2 else {}))
