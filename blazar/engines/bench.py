"""Measure how fast a model reads and writes: with llama-bench where the build has it, else through its server."""

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from blazar.engines import oneshot
from blazar.engines.install.speed import Fault, ask, served
from blazar.engines.lane import Program
from blazar.engines.tools import Tool
from blazar.errors import EngineToolFailed, UsageRefused
from blazar.store.installed import Installed

TOOL = "llama-bench"
PROMPT, GENERATE = "prompt", "generate"
SLACK = 64
"""Tokens of context beyond those that are measured."""

WORDS = "The quick brown fox jumps over the lazy dog while seven wizards quietly box five jugs of liquor. "

CONDITIONS = ("backends", "cpu_info", "gpu_info", "devices", "n_threads", "n_batch", "n_ubatch", "n_gpu_layers",
              "type_k", "type_v", "flash_attn", "build_number", "build_commit")
"""What llama-bench tells of how it measured that is worth keeping."""


@dataclass(frozen=True)
class Wanted:
    """What to measure: tokens to read, tokens to write (0 leaves one out), and how often."""

    prompt: int = 512
    generate: int = 128
    runs: int = 3

    def check(self, model: Installed) -> None:
        """Raises UsageRefused for what cannot be measured with the model."""
        if "completion" not in model.facts.capabilities:
            raise UsageRefused(f"{model.name} writes no text ({', '.join(model.facts.capabilities)}), so there is no "
                               f"speed of writing to measure")
        if min(self.prompt, self.generate) < 0 or not self.prompt + self.generate or self.runs < 1:
            raise UsageRefused("say what to measure: `--prompt` and `--generate` are tokens, not both 0, and `--runs` "
                               "is at least 1")
        trained = model.facts.context_length
        if trained and self.prompt + self.generate + SLACK > trained:
            raise UsageRefused(f"{model.name} has a context of {trained} tokens; `--prompt` and `--generate` together "
                               f"may be at most {max(0, trained - SLACK)}")


@dataclass(frozen=True)
class Figure:
    """One measured speed: tokens a second, the mean of the runs and its standard deviation."""

    task: str
    tokens: int
    rate: float
    deviation: float
    runs: int
    engine: str
    method: str
    conditions: Mapping[str, Any] = field(default_factory=dict)

    def row(self, model: Installed, measured_at: str) -> dict[str, Any]:
        """The columns of the table `measurement`."""
        return {"subject": "bench", "model": model.name, "digest": model.digest, "engine": self.engine,
                "method": self.method, "task": self.task, "tokens": self.tokens, "rate": self.rate,
                "deviation": self.deviation, "runs": self.runs, "conditions": json.dumps(dict(self.conditions)),
                "measured_at": measured_at}


def by_tool(tool: Tool, model: Installed, wanted: Wanted, env: Mapping[str, str] = os.environ) -> list[Figure]:
    """What llama-bench measures. Raises EngineToolFailed."""
    wanted.check(model)
    argv = [str(tool.path), "-m", str(model.file.absolute()), "-p", str(wanted.prompt), "-n", str(wanted.generate),
            "-r", str(wanted.runs), "-o", "json"]
    task = f"measure {model.name}"
    try:
        finished = oneshot.run(argv, oneshot.kept(env), cwd=Path("/"))
    except OSError as error:
        raise EngineToolFailed(tool=tool.path, task=task, reason=error.strerror or str(error)) from error
    if finished.code != 0:
        raise EngineToolFailed(tool=TOOL, task=task, reason=finished.ending)
    try:
        return [_figure(entry, tool.origin) for entry in json.loads(finished.output)]
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise EngineToolFailed(tool=TOOL, task=task, reason=f"its output is not understood ({error})") from error


def _figure(entry: Mapping[str, Any], origin: str) -> Figure:
    task, tokens = (GENERATE, entry["n_gen"]) if entry["n_gen"] else (PROMPT, entry["n_prompt"])
    rate, deviation = float(entry["avg_ts"]), float(entry["stddev_ts"])
    if not (math.isfinite(rate) and math.isfinite(deviation) and rate > 0):
        raise ValueError(f"a speed of {rate}")
    return Figure(task, int(tokens), rate, deviation, len(entry["samples_ns"]), origin, TOOL,
                  {name: entry[name] for name in CONDITIONS if name in entry})


def by_server(program: Program, origin: str, model: Installed, wanted: Wanted,
              extra: Mapping[str, str]) -> list[Figure]:
    """What the engine's server says of its own speed, asked on a socket of ours. Raises EngineToolFailed."""
    wanted.check(model)
    try:
        return _asked(program, origin, model, wanted, extra)
    except Fault as error:
        raise EngineToolFailed(tool=program.argv[0], task=f"measure {model.name}", reason=error) from error


def _asked(program: Program, origin: str, model: Installed, wanted: Wanted, extra: Mapping[str, str]) -> list[Figure]:
    ctx = wanted.prompt + wanted.generate + SLACK
    with served(program, model.file, extra, ctx) as address:
        def answer(prompt: Sequence[int], tokens: int) -> Mapping[str, Any]:
            return ask(address, "/completion", {"prompt": prompt, "n_predict": tokens, "ignore_eos": True,
                                                "temperature": 0, "cache_prompt": False})

        words = _tokens(address, wanted.prompt)
        answer(words[:16], 4)  # the first answer warms up
        figures = []
        if wanted.prompt:
            rates = [_rate(answer(words, 1), "prompt") for _ in range(wanted.runs)]
            figures.append(_mean(PROMPT, wanted.prompt, rates, origin))
        if wanted.generate:
            rates = [_rate(answer(words[:1], wanted.generate), "predicted") for _ in range(wanted.runs)]
            figures.append(_mean(GENERATE, wanted.generate, rates, origin))
    return figures


def _tokens(address: Path, count: int) -> list[int]:
    """`count` tokens of ordinary text, at least 16."""
    some = ask(address, "/tokenize", {"content": WORDS}).get("tokens")
    if not isinstance(some, list) or not some:
        raise Fault("it tells no tokens of a text")
    wanted = max(16, count)
    return (some * (wanted // len(some) + 1))[:wanted]


def _rate(answer: Mapping[str, Any], step: str) -> float:
    """Tokens a second of a step, `prompt` or `predicted`, as the server timed it."""
    timings = answer.get("timings")
    rate = timings.get(f"{step}_per_second") if isinstance(timings, dict) else None
    if not isinstance(rate, int | float) or not math.isfinite(rate) or rate <= 0:
        raise Fault(f"it does not tell how fast the step {step!r} was")
    return float(rate)


def _mean(task: str, tokens: int, rates: Sequence[float], origin: str) -> Figure:
    return Figure(task, tokens, fmean(rates), stdev(rates) if len(rates) > 1 else 0.0, len(rates), origin, "http")
