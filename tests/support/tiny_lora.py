"""A LoRA adapter for the model of `tiny_gguf`: random low-rank changes of one matrix of each layer."""

import functools
import importlib.util
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.support.real_engine import VENV
from tests.support.tiny_gguf import FEED_FORWARD, WIDTH

RANK = 4


def tiny_lora(path: Path | str) -> Path:
    """Write the adapter to `path` and return the path. Skips the test without gguf and numpy."""
    Path(path).write_bytes(_content())
    return Path(path)


@functools.cache
def _content() -> bytes:
    """The adapter as bytes, made by the Python of .venv when this one has no gguf, as on Debian."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "lora.gguf"
        if importlib.util.find_spec("gguf") is None and (VENV / "python").exists():
            subprocess.run([VENV / "python", "-m", "tests.support.tiny_lora", file], cwd=VENV.parent.parent, check=True)
        else:
            _write(file)
        return file.read_bytes()


def _write(path: Path) -> None:
    import pytest
    gguf: Any = pytest.importorskip("gguf")
    numpy: Any = pytest.importorskip("numpy")
    random = numpy.random.default_rng(7)
    writer = gguf.GGUFWriter(str(path), "llama")
    writer.add_type("adapter")
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", 64.0)
    for layer in range(2):
        for part, shape in (("lora_a", (RANK, WIDTH)), ("lora_b", (FEED_FORWARD, RANK))):
            writer.add_tensor(f"blk.{layer}.ffn_up.weight.{part}", random.standard_normal(shape).astype(numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    print(tiny_lora(sys.argv[1]))
