"""What plans say of memory beside what llama.cpp logs when it really loads such a model.

`make memory` (`python -m tests.support.memory_table [SEED]`) prints two tables: weights, cache and compute buffers
beside what llama.cpp logs, and the total beside what the processes hold. One model is made of a seed that nobody chose.
"""

import contextlib
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from blazar.planner.compute import compute_bytes
from blazar.planner.kv import Grade, Window, kv_bytes
from blazar.store.shape import read_shape
from tests.support.built_engines import cache
from tests.support.resident import Resident, engines, resident
from tests.support.shaped_gguf import write_shaped

MIB = 1 << 20
CONTEXTS = (4096, 12288, 32768)
GRADES = (Grade(), Grade("q8_0", "q8_0"))
MODELS = ("grouped", "experts", "windows", "latent", "hybrid")
LOAD_LIMIT = 30.0
"""Seconds until the engine has logged its buffers."""
_LOGGED = {"weights": re.compile(r"model buffer size = +([\d.]+) MiB"),
           "cache": re.compile(r"(?:KV|RS) buffer size = +([\d.]+) MiB"),
           "compute": re.compile(r"compute buffer size = +([\d.]+) MiB")}


@dataclass(frozen=True)
class Row:
    """One load; all sizes in MiB."""

    model: str
    ctx: int
    grade: Grade
    planned: dict[str, float]
    logged: dict[str, float]

    @property
    def faults(self) -> list[str]:
        """What is further off than it may be: 2 % of weights and cache, 15 % or 16 MiB of what is computed in."""
        limits = {"weights": 0.02 * self.logged["weights"], "cache": 0.02 * self.logged["cache"] + 0.01,
                  "compute": max(0.15 * self.logged["compute"], 16.0)}
        return [name for name, limit in limits.items() if abs(self.planned[name] - self.logged[name]) > limit]

    def __str__(self) -> str:
        sizes = "  ".join(f"{name} {self.planned[name]:8.2f} {self.logged[name]:8.2f}" for name in self.planned)
        return f"{self.model:14} {self.ctx:6} {self.grade!s:6}  {sizes}  {', '.join(self.faults) or 'ok'}"


def rows(folder: Path, models: tuple[str, ...] = MODELS, seed: int | None = None) -> Iterator[Row]:
    """Each model at each context and grade; with a `seed` also one whose sizes are chosen by chance."""
    for name, file, ctx, grade in cases(folder, models, seed):
        yield measured(name, file, ctx, grade)


def held(folder: Path, models: tuple[str, ...] = MODELS, seed: int | None = None) -> Iterator[Resident]:
    """The same with each engine that is here: what its process holds."""
    for name, file, ctx, grade in cases(folder, models, seed):
        for engine in engines():
            yield resident(engine, name, file, ctx, grade)


def cases(folder: Path, models: tuple[str, ...], seed: int | None) -> Iterator[tuple[str, Path, int, Grade]]:
    files = {name: write_shaped(folder / f"{name}.gguf", name) for name in models}
    if seed is not None:
        files[f"seed {seed}"] = by_chance(folder / "chance.gguf", seed)
    return ((name, file, ctx, grade) for name, file in files.items() for ctx in CONTEXTS for grade in GRADES)


def by_chance(path: Path, seed: int) -> Path:
    """A model of any kind with heads, of sizes that the seed chooses."""
    chance = random.Random(seed)
    kind = chance.choice(MODELS)
    heads = chance.randrange(8, 33)
    sizes = {"layers": chance.randrange(3, 14), "width": heads * 64, "ff": chance.randrange(8, 48) * 128}
    if kind in ("grouped", "experts", "hybrid"):
        sizes |= {"heads": heads, "kv": chance.choice([1, heads])}
    return write_shaped(path, kind, vocabulary=chance.randrange(600, 9000), **sizes)


def measured(name: str, file: Path, ctx: int, grade: Grade, slots: int = 1) -> Row:
    shape = read_shape([file])
    window = Window(ctx, slots)
    planned = {"weights": shape.weights / MIB, "cache": kv_bytes(shape, grade, window) / MIB,
               "compute": compute_bytes(shape, window) / MIB}
    return Row(name, ctx, grade, planned, logged(file, window, grade))


def logged(file: Path, window: Window, grade: Grade) -> dict[str, float]:
    """MiB that the engine tells of while it loads; it is ended as soon as it has told all."""
    argv = [cache() / "bin" / "llama-server", "--model", file, "--ctx-size", str(window.ctx * window.slots),
            "--parallel", str(window.slots), "--kv-unified", "--cache-type-k", grade.keys, "--cache-type-v",
            grade.values, "--port", "0", "--no-warmup", "--log-verbosity", "4", "--fit", "off", "--no-repack"]
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([str(word) for word in argv], stdout=output, stderr=output)
        try:
            text = _told(process, output)
        finally:
            with contextlib.suppress(OSError):
                process.send_signal(signal.SIGKILL)
            process.wait()
    return {name: sum(float(size) for size in form.findall(text)) for name, form in _LOGGED.items()}


def _told(process: "subprocess.Popen[bytes]", output: IO[bytes]) -> str:
    ends = time.monotonic() + LOAD_LIMIT
    while time.monotonic() < ends:
        done = process.poll() is not None
        text = os.pread(output.fileno(), 1 << 20, 0).decode(errors="replace")
        if "graph: nodes" in text:
            return text
        assert not done, text[-2000:]
        time.sleep(0.02)
    raise AssertionError("the engine did not tell its buffers in time")


def main() -> int:
    """The exit code: 1 when a number is further off than it may be."""
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else time.time_ns() % 10**6
    off = 0
    with tempfile.TemporaryDirectory() as folder:
        print("model             ctx grade   planned and logged, in MiB")
        for row in rows(Path(folder), seed=seed):
            print(row, flush=True)
            off += bool(row.faults)
        print("\nmodel             ctx grade  engine     planned and held (PSS), in MiB")
        for one in held(Path(folder), seed=seed):
            print(one, flush=True)
            off += one.is_off
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main())
