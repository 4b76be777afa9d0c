"""A projector for the model of `tiny_gguf`: a vision encoder with random weights, which real engines load.

    python -m tests.support.tiny_mmproj OUT.gguf

An image becomes four tokens. What the model says of it is noise, and another image makes it say other noise.
"""

import functools
import importlib.util
import struct
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

from tests.support.real_engine import VENV
from tests.support.tiny_gguf import WIDTH

SIDE, PATCH, INNER, HEADS, FEED_FORWARD, LAYERS = 32, 16, 32, 2, 64, 2


def tiny_mmproj(path: Path | str) -> Path:
    """Write the projector to `path` and return the path. Skips the test without gguf and numpy."""
    Path(path).write_bytes(_content())
    return Path(path)


def png(red: int, green: int, blue: int, side: int = SIDE) -> bytes:
    """A picture of one colour."""
    return png_of((b"\0" + bytes((red, green, blue)) * side) * side, side)


def png_of(rows: bytes, side: int, level: int = -1) -> bytes:
    """The picture of these rows, each of which begins with the byte of its filter; `level` is zlib's."""
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in ((b"IHDR", head), (b"IDAT", zlib.compress(rows, level)), (b"IEND", b"")))


@functools.cache
def _content() -> bytes:
    """The projector as bytes, made by the Python of .venv when this one has no gguf, as on Debian."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "mmproj.gguf"
        if importlib.util.find_spec("gguf") is None and (VENV / "python").exists():
            subprocess.run([VENV / "python", "-m", "tests.support.tiny_mmproj", file], cwd=VENV.parent.parent,
                           check=True)
        else:
            _write(file)
        return file.read_bytes()


def _write(path: Path) -> None:
    import pytest
    gguf: Any = pytest.importorskip("gguf")
    numpy: Any = pytest.importorskip("numpy")
    writer = gguf.GGUFWriter(str(path), "clip")
    writer.add_type("mmproj")
    writer.add_bool("clip.has_vision_encoder", True)
    writer.add_string("clip.projector_type", "mlp")
    writer.add_bool("clip.use_gelu", True)
    for key, value in {"image_size": SIDE, "patch_size": PATCH, "embedding_length": INNER, "block_count": LAYERS,
                       "feed_forward_length": FEED_FORWARD, "projection_dim": WIDTH,
                       "attention.head_count": HEADS}.items():
        writer.add_uint32(f"clip.vision.{key}", value)
    writer.add_float32("clip.vision.attention.layer_norm_epsilon", 1e-5)
    writer.add_array("clip.vision.image_mean", [0.5, 0.5, 0.5])
    writer.add_array("clip.vision.image_std", [0.5, 0.5, 0.5])
    _add_weights(writer, numpy)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_weights(writer: Any, numpy: Any) -> None:
    random = numpy.random.default_rng(5)
    shapes = {"v.patch_embd.weight": (INNER, 3, PATCH, PATCH),
              "v.position_embd.weight": ((SIDE // PATCH) ** 2, INNER),
              "mm.0.weight": (WIDTH, INNER), "mm.2.weight": (WIDTH, WIDTH)}
    ones = {}
    for layer in range(LAYERS):
        block = f"v.blk.{layer}"
        shapes |= {f"{block}.attn_{part}.weight": (INNER, INNER) for part in ("q", "k", "v", "out")}
        shapes |= {f"{block}.ffn_up.weight": (FEED_FORWARD, INNER), f"{block}.ffn_down.weight": (INNER, FEED_FORWARD)}
        ones |= {f"{block}.ln1.weight": INNER, f"{block}.ln2.weight": INNER}
    for name, shape in shapes.items():
        writer.add_tensor(name, (random.standard_normal(shape) * 0.2).astype(numpy.float32))
    for name, width in ones.items():
        writer.add_tensor(name, numpy.ones(width, numpy.float32))
    for name in ("mm.0.bias", "mm.2.bias"):
        writer.add_tensor(name, numpy.zeros(WIDTH, numpy.float32))


if __name__ == "__main__":
    print(tiny_mmproj(sys.argv[1]))
