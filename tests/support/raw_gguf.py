"""GGUF files byte by byte, right or wrong, without any GGUF library."""

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

F32, Q4_0 = 0, 2
U8, U32, F32_VALUE, BOOL, STRING, ARRAY, U64 = 0, 4, 6, 7, 8, 9, 10


def text(value: str | bytes) -> bytes:
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def pair(key: str, kind: int, raw: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + raw


def value(key: str, given: Any) -> bytes:
    """A metadata pair of the type that fits a Python value; a list is an array of texts or whole numbers."""
    if isinstance(given, bool):
        return pair(key, BOOL, struct.pack("<?", given))
    if isinstance(given, int):
        return pair(key, U32, struct.pack("<I", given))
    if isinstance(given, float):
        return pair(key, F32_VALUE, struct.pack("<f", given))
    if isinstance(given, list):
        texts = bool(given) and isinstance(given[0], str)
        items = [text(item) if texts else struct.pack("<I", item) for item in given]
        return pair(key, ARRAY, struct.pack("<IQ", STRING if texts else U32, len(items)) + b"".join(items))
    return pair(key, STRING, text(given))


def tensor(name: str, dimensions: Iterable[int], kind: int = F32, offset: int = 0) -> bytes:
    sizes = list(dimensions)
    return (text(name) + struct.pack("<I", len(sizes)) + b"".join(struct.pack("<Q", size) for size in sizes)
            + struct.pack("<IQ", kind, offset))


def head(tensors: int, pairs: int, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, pairs)


def gguf_bytes(metadata: dict[str, Any] | None = None, elements: int = 64, fill: bytes = b"\0",
               version: int = 3) -> bytes:
    """A whole small file with one F32 tensor; `metadata` is added to the least a model has, None drops a key."""
    least = {"general.architecture": "llama", "general.file_type": 2, "llama.context_length": 4096}
    pairs = {key: given for key, given in {**least, **(metadata or {})}.items() if given is not None}
    header = head(1, len(pairs), version) + b"".join(value(key, given) for key, given in pairs.items())
    header += tensor("token_embd.weight", [elements])
    return header + b"\0" * (-len(header) % 32) + fill * (4 * elements)


def write_gguf(path: Path, metadata: dict[str, Any] | None = None, **options: Any) -> Path:
    path.write_bytes(gguf_bytes(metadata, **options))
    return path
