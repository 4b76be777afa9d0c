"""`Census`: all that is known of this machine, as one value that can be saved and read again."""

import json
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

from blazar.errors import CensusRefused
from blazar.hardware.cpu import Cpu, read_cpu
from blazar.hardware.device import Device
from blazar.hardware.memory import Memory, read_memory
from blazar.hardware.numa import Node, read_nodes
from blazar.hardware.nvidia import Nvidia, ask_nvml, merged, read_driver
from blazar.hardware.pci import VENDORS, read_gpus
from blazar.hardware.vulkan import Icd, read_icds

VARIABLES = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
             "GGML_VK_VISIBLE_DEVICES")
"""The environment variables that hide cards from engines, or change their order."""
LARGEST_FILE = 4 << 20
"""Bytes of a saved census that are read."""


@dataclass(frozen=True)
class Census:
    """None stands everywhere for what is not known."""

    cpu: Cpu
    memory: Memory
    gpus: tuple[Device, ...] | None = None
    vulkan: tuple[Icd, ...] | None = None
    nvidia_driver: str | None = None
    """The version of NVIDIA's driver; None when none is loaded too."""
    cuda: str | None = None
    """The newest CUDA that this driver can run."""
    nodes: tuple[Node, ...] | None = None
    variables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    """Those of VARIABLES that are set."""

    @property
    def has_vulkan(self) -> bool | None:
        """Whether a GPU's Vulkan driver is installed."""
        return None if self.vulkan is None else any(not icd.software for icd in self.vulkan)

    @property
    def known_gpus(self) -> tuple[Device, ...]:
        """The GPUs of vendors whose drivers engines can use."""
        return tuple(gpu for gpu in self.gpus or () if gpu.vendor in VENDORS.values())

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; `from_dict` is the way back."""
        features = self.cpu.features
        return {"cpu": {**asdict(self.cpu), "features": None if features is None else sorted(features)},
                "memory": asdict(self.memory), "gpus": _plain(self.gpus), "vulkan": _plain(self.vulkan),
                "nvidia_driver": self.nvidia_driver, "cuda": self.cuda, "nodes": _plain(self.nodes),
                "variables": dict(self.variables)}

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> "Census":
        cpu, features = told["cpu"], told["cpu"].get("features")
        return _made(cls, {
            "cpu": _made(Cpu, {**cpu, "features": None if features is None else frozenset(features)}),
            "memory": _made(Memory, told["memory"]), "gpus": _each(Device, told.get("gpus")),
            "vulkan": _each(Icd, told.get("vulkan")), "nvidia_driver": told.get("nvidia_driver"),
            "cuda": told.get("cuda"), "nodes": _each(Node, told.get("nodes")),
            "variables": MappingProxyType(dict(told.get("variables") or {}))})


def census(root: Path = Path("/"), nvml: Callable[[], Nvidia | None] = ask_nvml,
           machine: str | None = None, env: Mapping[str, str] = os.environ) -> Census:
    """Look at the machine whose /proc, /sys, /etc and /usr lie under `root`. Never fails, and starts nothing."""
    gpus = read_gpus(root)
    nvidia = nvml() or read_driver(root)
    if nvidia is not None:
        gpus = merged(gpus or (), nvidia)
    return Census(read_cpu(root, machine or platform.machine()), read_memory(root), gpus, read_icds(root),
                  nvidia.driver if nvidia else None, nvidia.cuda if nvidia else None, read_nodes(root),
                  MappingProxyType({name: env[name] for name in VARIABLES if name in env}))


def read_census(path: Path) -> Census:
    """A census that was saved as JSON. Raises CensusRefused; keys that begin with `_` are remarks for people."""
    try:
        with open(path, "rb") as file:
            told = json.loads(file.read(LARGEST_FILE))
        return Census.from_dict({key: value for key, value in told.items() if not key.startswith("_")})
    except OSError as error:
        raise CensusRefused(path=path, reason=f"it cannot be read ({error.strerror})") from error
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise CensusRefused(path=path, reason=f"it is none, or of another version ({str(error)[:120]})") from error


def _plain(entries: Any) -> Any:
    return None if entries is None else [asdict(entry) for entry in entries]


def _each(kind: Any, entries: Any) -> Any:
    return None if entries is None else tuple(_made(kind, entry) for entry in entries)


def _made(kind: Any, fields: Mapping[str, Any]) -> Any:
    """One of our values out of a file, in which anything may stand. Raises ValueError or TypeError."""
    for name, hint in get_type_hints(kind).items():
        if name in fields and not _is(fields[name], hint):
            raise ValueError(f"{name} cannot be {json.dumps(fields[name], default=str)[:40]}")
    return kind(**fields)


def _is(value: Any, hint: Any) -> bool:
    """Whether `value` is what a field is declared to hold; numbers are sizes and counts, of 64 bits."""
    if isinstance(hint, UnionType):
        return any(_is(value, one) for one in get_args(hint))
    if hint is int:
        return type(value) is int and 0 <= value < 2**63
    kind = get_origin(hint) or hint
    if not isinstance(value, kind):
        return False
    parts = [*value, *value.values()] if isinstance(value, Mapping) else value if kind in (tuple, frozenset) else ()
    return all(_is(part, get_args(hint)[0]) for part in parts)
