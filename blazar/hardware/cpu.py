"""The processor: its name, how many cores there are, and what it can do that matters to an engine."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from blazar.hardware.files import text

FEATURES = frozenset({
    # as the kernel calls them: x86
    "sse4_2", "ssse3", "avx", "avx2", "fma", "f16c", "bmi2", "avx_vnni", "avx512f", "avx512bw", "avx512cd", "avx512dq",
    "avx512vl", "avx512vbmi", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile", "amx_int8", "amx_bf16",
    # and arm
    "asimd", "asimdhp", "asimddp", "fphp", "i8mm", "bf16", "sve", "sve2", "sme",
})


@dataclass(frozen=True)
class Cpu:
    """What /proc/cpuinfo tells, and on which processors this process may run."""

    machine: str
    """The architecture, as `uname -m` writes it."""
    model: str | None = None
    cores: int | None = None
    """Physical cores in all."""
    threads: int | None = None
    """Logical processors in all."""
    allowed: int | None = None
    """Logical processors on which this process may run."""
    features: frozenset[str] | None = None
    """Those of FEATURES that every processor has."""


def read_cpu(root: Path, machine: str) -> Cpu:
    """The processor that the files under `root` describe."""
    processors = list(_processors(text(root / "proc/cpuinfo") or ""))
    if not processors:
        return Cpu(machine, allowed=_allowed(root))
    features = [set(flags.split()) for one in processors
                if (flags := one.get("flags", one.get("Features"))) is not None]
    places = {(one["physical id"], one["core id"]) for one in processors if "physical id" in one and "core id" in one}
    return Cpu(machine, model=next((one["model name"] for one in processors if "model name" in one), None),
               cores=len(places) or None, threads=len(processors), allowed=_allowed(root),
               features=frozenset(set.intersection(*features) & FEATURES) if features else None)


def _processors(cpuinfo: str) -> Iterator[dict[str, str]]:
    """One mapping for each paragraph that describes a processor; arm adds one about the board, which does not."""
    for paragraph in cpuinfo.split("\n\n"):
        pairs = (line.partition(":") for line in paragraph.splitlines())
        fields = {name.strip(): value.strip() for name, _, value in pairs}
        if "processor" in fields:
            yield fields


def _allowed(root: Path) -> int | None:
    """How many processors `Cpus_allowed_list: 0-3,8` names."""
    for line in (text(root / "proc/self/status") or "").splitlines():
        name, _, value = line.partition(":")
        if name == "Cpus_allowed_list":
            ends = [part.partition("-") for part in value.strip().split(",")]
            try:
                return sum(int(last or first) - int(first) + 1 for first, _, last in ends)
            except ValueError:
                return None
    return None
