"""GPUs on the PCI bus, whether or not a driver works with them."""

import os
from pathlib import Path

from blazar.hardware.device import Device
from blazar.hardware.files import entries, number, text

VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel"}
DISPLAY = "0x03"
"""How the class of a display controller begins."""
ACCELERATOR = "0x12"
"""How the class of a processing accelerator begins. Those of AMD are GPUs without an output; others may be anything."""


def read_gpus(root: Path) -> tuple[Device, ...] | None:
    """The GPUs that sysfs under `root` shows, by address; None when it cannot be read."""
    folders = entries(root / "sys/bus/pci/devices")
    if folders is None:
        return None
    return tuple(_device(folder) for folder in folders if _is_gpu(folder))


def _is_gpu(folder: Path) -> bool:
    kind = text(folder / "class") or ""
    return kind.startswith(DISPLAY) or (kind.startswith(ACCELERATOR) and _vendor(folder) == "amd")


def _vendor(folder: Path) -> str:
    code = text(folder / "vendor") or "unknown"
    return VENDORS.get(code, code)


def _device(folder: Path) -> Device:
    """amdgpu tells the memory in sysfs; of others the bus does not know it."""
    total, used = number(folder / "mem_info_vram_total"), number(folder / "mem_info_vram_used")
    free = None if total is None or used is None else max(0, total - used)
    return Device(_vendor(folder), bus=folder.name, driver=_driver(folder), memory=total, free=free)


def _driver(folder: Path) -> str | None:
    try:
        return os.path.basename(os.readlink(folder / "driver"))
    except OSError:
        return None
