"""A model that only the stub engine serves: a GGUF header without weights, written by hand, and its scenario file."""

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from blazar.paths import Paths
from blazar.store.store import Store

EMBEDDING = "bert"
"""The architecture of a model that embeds."""


HEAVY = {"context_length": 65536, "block_count": 1024, "attention.key_length": 64, "attention.value_length": 64}
"""The shape of a model that wants a MiB of f16 cache for each token of context, and next to nothing besides."""


def write_header(path: Path, title: str, ctx: int = 4096, architecture: str = "llama",
                 shape: Mapping[str, int] = MappingProxyType({})) -> Path:
    """A GGUF file whose title makes its content, and so its digest, its own."""
    texts = {"general.architecture": architecture, "general.name": title}
    usual = {"context_length": ctx, "embedding_length": 64, "block_count": 2, "attention.head_count": 4}
    keys = {**usual, **shape}
    numbers = {**{f"{architecture}.{key}": value for key, value in keys.items()}, "general.file_type": 0}
    head = struct.pack("<4sIQQ", b"GGUF", 3, 1, len(texts) + len(numbers))
    pairs = [_text(key) + struct.pack("<I", 8) + _text(value) for key, value in texts.items()]
    pairs += [_text(key) + struct.pack("<II", 4, value) for key, value in numbers.items()]
    tensor = _text("token_embd.weight") + struct.pack("<IQQIQ", 2, 4, 4, 0, 0)
    body = head + b"".join(pairs) + tensor
    path.write_bytes(body + bytes(-len(body) % 32) + bytes(64))
    return path


def install_stub(paths: Paths, name: str, work: Path, architecture: str = "llama",
                 shape: Mapping[str, int] = MappingProxyType({}), **scenario: Any) -> str:
    """Install such a model; its canonical name."""
    file = write_header(work / f"{name}.gguf", name, architecture=architecture, shape=shape)
    model = Store(paths).install_file(file, name)
    if scenario:
        play(paths, model["digest"], **scenario)
    return model["name"]


def model_file(paths: Paths, digest: str) -> Path:
    return paths.blobs / f"{digest}.gguf"


def play(paths: Paths, digest: str, **scenario: Any) -> None:
    """Give the model another scenario, from its next start on."""
    Path(f"{model_file(paths, digest)}.stub.json").write_text(json.dumps(scenario))


def _text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()
