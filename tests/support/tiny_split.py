"""A GGUF file cut into a split set as `llama-gguf-split` would do it, byte by byte, without any GGUF library."""

import struct
from pathlib import Path

from tests.support.raw_gguf import head, pair, value

ALIGNMENT = 32
WIDTHS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?", 10: "<Q", 11: "<q", 12: "<d"}
U16, I32 = 2, 5


def split(file: Path, folder: Path, count: int, stem: str | None = None) -> list[Path]:
    """Write `count` parts of `file` into `folder`; their paths. The first holds the metadata."""
    raw = file.read_bytes()
    pairs, tensors, data = _take_apart(raw)
    share = -(-len(tensors) // count)
    paths = []
    for number in range(count):
        mine = tensors[number * share:(number + 1) * share]
        keys = [pair("split.no", U16, struct.pack("<H", number)), pair("split.count", U16, struct.pack("<H", count)),
                pair("split.tensors.count", I32, struct.pack("<i", len(tensors)))]
        keys += pairs if number == 0 else [value("general.architecture", "llama")]
        body = head(len(mine), len(keys)) + b"".join(keys)
        weights = b""
        for name, dimensions, kind, offset, size in mine:
            body += name + dimensions + struct.pack("<IQ", kind, len(weights))
            weights += data[offset:offset + size]
            weights += bytes(-len(weights) % ALIGNMENT)
        path = folder / f"{stem or file.stem}-{number + 1:05}-of-{count:05}.gguf"
        path.write_bytes(body + bytes(-len(body) % ALIGNMENT) + weights)
        paths.append(path)
    return paths


def _take_apart(raw: bytes) -> tuple[list[bytes], list[tuple[bytes, bytes, int, int, int]], bytes]:
    """Metadata pairs as bytes; tensors as (name, dimensions, type, offset, size); the weights. F32 tensors only."""
    _, _, tensor_count, pair_count = struct.unpack_from("<4sIQQ", raw)
    at = 24
    pairs = []
    for _ in range(pair_count):
        begin = at
        at = _after_text(raw, at)
        kind = struct.unpack_from("<I", raw, at)[0]
        at = _after_value(raw, at + 4, kind)
        pairs.append(raw[begin:at])
    found = []
    for _ in range(tensor_count):
        begin, at = at, _after_text(raw, at)
        name = raw[begin:at]
        dimensions = struct.unpack_from("<I", raw, at)[0]
        shape = raw[at:at + 4 + 8 * dimensions]
        elements = 1
        for size in struct.unpack_from(f"<{dimensions}Q", raw, at + 4):
            elements *= size
        at += 4 + 8 * dimensions
        kind, offset = struct.unpack_from("<IQ", raw, at)
        at += 12
        found.append((name, shape, kind, offset, 4 * elements))
    return pairs, found, raw[-(-at // ALIGNMENT) * ALIGNMENT:]


def _after_text(raw: bytes, at: int) -> int:
    return at + 8 + struct.unpack_from("<Q", raw, at)[0]


def _after_value(raw: bytes, at: int, kind: int) -> int:
    if kind == 8:
        return _after_text(raw, at)
    if kind != 9:
        return at + struct.calcsize(WIDTHS[kind])
    inner, count = struct.unpack_from("<IQ", raw, at)
    at += 12
    if inner != 8:
        return at + count * struct.calcsize(WIDTHS[inner])
    for _ in range(count):
        at = _after_text(raw, at)
    return at
