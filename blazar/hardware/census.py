"""`Census`: all that is known of this machine, as one value that can be saved and read again."""

import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from blazar.hardware.cpu import Cpu, read_cpu
from blazar.hardware.device import Device
from blazar.hardware.memory import Memory, read_memory
from blazar.hardware.nvidia import Nvidia, ask_nvml, merged, read_driver
from blazar.hardware.pci import read_gpus
from blazar.hardware.vulkan import Icd, read_icds


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

    @property
    def has_vulkan(self) -> bool | None:
        """Whether a GPU's Vulkan driver is installed."""
        return None if self.vulkan is None else any(not icd.software for icd in self.vulkan)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; `from_dict` is the way back."""
        told = asdict(self)
        features = self.cpu.features
        told["cpu"]["features"] = None if features is None else sorted(features)
        return told

    @classmethod
    def from_dict(cls, told: Mapping[str, Any]) -> "Census":
        cpu, features = told["cpu"], told["cpu"].get("features")
        return cls(Cpu(**{**cpu, "features": None if features is None else frozenset(features)}),
                   Memory(**told["memory"]), _each(Device, told.get("gpus")), _each(Icd, told.get("vulkan")),
                   told.get("nvidia_driver"), told.get("cuda"))


def census(root: Path = Path("/"), nvml: Callable[[], Nvidia | None] = ask_nvml,
           machine: str | None = None) -> Census:
    """Look at the machine whose /proc, /sys, /etc and /usr lie under `root`. Never fails, and starts nothing."""
    gpus = read_gpus(root)
    nvidia = nvml() or read_driver(root)
    if nvidia is not None:
        gpus = merged(gpus or (), nvidia)
    return Census(read_cpu(root, machine or platform.machine()), read_memory(root), gpus, read_icds(root),
                  nvidia.driver if nvidia else None, nvidia.cuda if nvidia else None)


def _each(kind: Any, entries: Any) -> Any:
    return None if entries is None else tuple(kind(**entry) for entry in entries)
