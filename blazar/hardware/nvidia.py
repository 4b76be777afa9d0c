"""What NVIDIA's driver tells: through NVML when `pynvml` is importable, else what its files in /proc say."""

import importlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from blazar.hardware.device import Device
from blazar.hardware.files import entries, text

_MODULE_VERSION = re.compile(r"NVRM version:.*?\s(\d+(?:\.\d+)+)\s")


@dataclass(frozen=True)
class Nvidia:
    """The driver, and the GPUs it knows."""

    driver: str | None = None
    """Its version, as `550.54.14`."""
    cuda: str | None = None
    """The newest CUDA that it can run, as `12.4`."""
    devices: tuple[Device, ...] = ()


def ask_nvml() -> Nvidia | None:
    """What NVML tells; None without `pynvml` or without a driver that answers."""
    try:
        nvml: Any = importlib.import_module("pynvml")
    except ImportError:
        return None
    try:
        nvml.nvmlInit()
    except nvml.NVMLError:
        return None
    try:
        cuda = _asked(nvml, nvml.nvmlSystemGetCudaDriverVersion)
        count = _asked(nvml, nvml.nvmlDeviceGetCount) or 0
        return Nvidia(_words(_asked(nvml, nvml.nvmlSystemGetDriverVersion)),
                      f"{cuda // 1000}.{cuda % 1000 // 10}" if cuda else None,
                      tuple(_device(nvml, nvml.nvmlDeviceGetHandleByIndex(index)) for index in range(count)))
    except nvml.NVMLError:
        return None
    finally:
        nvml.nvmlShutdown()


def read_driver(root: Path) -> Nvidia | None:
    """What the driver's files under `root` tell: versions and names, no memory; None without a driver."""
    version = text(root / "proc/driver/nvidia/version")
    if version is None:
        return None
    match = _MODULE_VERSION.search(version)
    found = [_from_proc(folder) for folder in entries(root / "proc/driver/nvidia/gpus") or ()]
    return Nvidia(match[1] if match else None, None, tuple(found))


def merged(gpus: Iterable[Device], known: Nvidia) -> tuple[Device, ...]:
    """The GPUs of the bus with what the driver knows of them; those that only the driver knows come last."""
    by_bus = {device.bus: device for device in known.devices}
    found = []
    for gpu in gpus:
        more = by_bus.pop(gpu.bus, None) if gpu.vendor == "nvidia" else None
        found.append(replace(more, driver=gpu.driver, id=gpu.id or more.id) if more else gpu)
    return (*found, *by_bus.values())


def bus_address(told: str) -> str:
    """As sysfs writes it: NVML's domain has eight digits, and letters may be large."""
    domain, _, rest = told.lower().partition(":")
    return f"{domain[-4:]}:{rest}"


def _device(nvml: Any, handle: Any) -> Device:
    place = _asked(nvml, nvml.nvmlDeviceGetPciInfo, handle)
    memory = _asked(nvml, nvml.nvmlDeviceGetMemoryInfo, handle)
    compute = _asked(nvml, nvml.nvmlDeviceGetCudaComputeCapability, handle)
    return Device("nvidia", bus=bus_address(_words(place.busId) or "") if place else None,
                  name=_words(_asked(nvml, nvml.nvmlDeviceGetName, handle)),
                  memory=memory.total if memory else None, free=memory.free if memory else None,
                  compute="{}.{}".format(*compute) if compute else None,
                  uuid=_words(_asked(nvml, nvml.nvmlDeviceGetUUID, handle)))


def _from_proc(folder: Path) -> Device:
    facts = dict(line.partition(":")[::2] for line in (text(folder / "information") or "").splitlines())
    return Device("nvidia", bus=bus_address(folder.name), name=facts.get("Model", "").strip() or None)


def _asked(nvml: Any, function: Any, *arguments: Any) -> Any:
    """One answer of NVML; None for what this GPU, driver or `pynvml` does not tell."""
    try:
        return function(*arguments)
    except nvml.NVMLError:
        return None


def _words(told: Any) -> str | None:
    """Older versions of `pynvml` answer in bytes."""
    return told.decode(errors="replace") if isinstance(told, bytes) else told
