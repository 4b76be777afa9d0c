"""Make a smaller build of an installed model with llama-quantize, and install it beside the one it came from."""

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from blazar.engines import oneshot
from blazar.engines.tools import Tool
from blazar.errors import EngineToolFailed, UsageRefused
from blazar.store.facts import read_facts
from blazar.store.installed import Installed
from blazar.store.locks import told_in_words
from blazar.store.name import parse
from blazar.store.pieces import COMPANIONS, Piece
from blazar.store.scratch import scratch
from blazar.store.splits import part_name
from blazar.store.store import Progress, Store, Summary, silent

TOOL = "llama-quantize"
WHOLE = frozenset({"F32", "F16", "BF16"})
"""Quantisations that are none: a file of another one loses twice."""

BLOCK = 1 << 20
"""Bytes hashed at once."""

RESERVE = 1 << 20
"""Bytes on top of the size that the tool foretells, for what stands around the weights."""

_TYPE = re.compile(r"^\s*\d+\s+or\s+(\w+)\s*:", re.MULTILINE)
_SIZE = re.compile(r"quant size\s*=\s*([0-9.]+) MiB")
_STEP = re.compile(r"^\[\s*(\d+)/\s*(\d+)\]")


def quantize(store: Store, tool: Tool, model: Installed, kind: str, name: str | None = None, again: bool = False,
             imatrix: Path | None = None, progress: Progress = silent, env: Mapping[str, str] = os.environ) -> Summary:
    """Install `model` quantised as `kind` (`q4_k_m`): the new model's summary, and whether anything `changed`.

    `progress` is told the tensors done and in all, then the bytes hashed. `again` allows a model that is quantised
    already. Raises UsageRefused, StoreUnwritable or EngineToolFailed; then, and after Ctrl-C, nothing is left.
    """
    run_env = oneshot.kept(env)
    kind = _known_kind(tool, kind, run_env)
    _refuse(model, kind, again, imatrix)
    flags = [*(["--allow-requantize"] if again else []), *(["--imatrix", str(imatrix.absolute())] if imatrix else [])]
    with _opened(model) as source, \
            store.workspace(_size(tool, flags, source, kind, run_env) or model.size + RESERVE) as folder:
        made = folder / "model.gguf"

        def told(line: str) -> None:
            if step := _STEP.match(line):
                progress("quantize", int(step[1]), int(step[2]))

        _run(tool, [*flags, source, str(made), kind], run_env, folder, told, f"quantise {model.name} as {kind}")
        size = read_facts(made).size
        weights = Piece("model", made, _hashed(made, size, progress), size, f"{kind.lower()}.gguf")
        companions = [piece for piece in model.pieces if piece.role in COMPANIONS]
        return store.adopt_pieces([weights, *companions], name, f"{parse(model.name).model}:{kind.lower()}",
                                  f"{model.name} quantised as {kind} by {tool.origin}", model.license, model.preset)


def kinds(tool: Tool, env: Mapping[str, str]) -> list[str]:
    """The quantisations that the tool offers, as its help lists them."""
    finished = oneshot.run([str(tool.path), "--help"], env)
    return _TYPE.findall(finished.output)


def _known_kind(tool: Tool, kind: str, env: Mapping[str, str]) -> str:
    try:
        offered = kinds(tool, env)
    except OSError as error:
        raise EngineToolFailed(tool=tool.path, task="be started", reason=error.strerror or str(error)) from error
    if not offered:
        raise EngineToolFailed(tool=tool.path, task="say what it can do", reason="its --help lists no quantisation")
    if kind.upper() not in offered:
        raise UsageRefused(f"{kind} is no quantisation that {TOOL} of {tool.origin} offers; it has "
                           f"{', '.join(name.lower() for name in offered)}")
    return kind.upper()


def _refuse(model: Installed, kind: str, again: bool, imatrix: Path | None) -> None:
    """What makes no sense is told before an hour is spent on it."""
    if model.facts.format != "gguf":
        raise UsageRefused(f"{model.name} is a {model.facts.format} model, and {TOOL} reads only GGUF files")
    if model.facts.quantization.upper() == kind:
        raise UsageRefused(f"{model.name} is {kind} already")
    if model.facts.quantization.upper() not in WHOLE and not again:
        raise UsageRefused(f"{model.name} is quantised already, as {model.facts.quantization}, and would lose quality "
                           f"twice; quantise its f16 or bf16 build instead, or say `--again`")
    if imatrix is not None and not os.access(imatrix, os.R_OK):
        raise UsageRefused(f"cannot read {imatrix} given with `--imatrix`")


@contextlib.contextmanager
def _opened(model: Installed) -> Iterator[str]:
    """The file to read; of a split set its first, in a folder where the others have the names that are looked for."""
    parts = [piece.path.absolute() for piece in model.pieces if piece.role in ("model", "part")]
    with scratch("quantize") as folder:
        links = [folder / part_name("model", number, len(parts)) for number in range(1, len(parts) + 1)]
        for link, part in zip(links, parts, strict=True):
            link.symlink_to(part)
        yield str(links[0] if len(parts) > 1 else parts[0])


def _size(tool: Tool, flags: list[str], source: str, kind: str, env: Mapping[str, str]) -> int | None:
    """Bytes of the result, as the tool foretells them; None when it cannot."""
    finished = oneshot.run([str(tool.path), *flags, "--dry-run", source, kind], env, on_line=lambda line: None)
    found = _SIZE.search(finished.said)
    return int(float(found[1]) * (1 << 20)) + RESERVE if found and finished.code == 0 else None


def _run(tool: Tool, words: list[str], env: Mapping[str, str], folder: Path, told: Callable[[str], None],
         task: str) -> None:
    try:
        finished = oneshot.run([str(tool.path), *words], env, cwd=folder, on_line=told)
    except OSError as error:
        raise EngineToolFailed(tool=tool.path, task=task, reason=error.strerror or str(error)) from error
    if finished.code != 0:
        raise EngineToolFailed(tool=TOOL, task=task, reason=finished.ending)


def _hashed(path: Path, size: int, progress: Progress) -> str:
    """sha256 of the finished file, which is on the disk afterwards."""
    digest, done = hashlib.sha256(), 0
    with told_in_words(path), open(path, "rb") as file:
        os.fsync(file.fileno())
        while block := file.read(BLOCK):
            digest.update(block)
            done += len(block)
            progress("verify", done, size)
    return digest.hexdigest()
