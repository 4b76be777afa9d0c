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
NAMES = ("usr/share/misc/pci.ids", "usr/share/hwdata/pci.ids")
"""Where distributions keep the names of PCI devices, which lspci prints."""


def read_gpus(root: Path) -> tuple[Device, ...] | None:
    """The GPUs that sysfs under `root` shows, by address; None when it cannot be read."""
    folders = entries(root / "sys/bus/pci/devices")
    if folders is None:
        return None
    found = [folder for folder in folders if _is_gpu(folder)]
    names = _names(root, {_id(folder) for folder in found})
    return tuple(_device(folder, names) for folder in found)


def _is_gpu(folder: Path) -> bool:
    kind = text(folder / "class") or ""
    return kind.startswith(DISPLAY) or (kind.startswith(ACCELERATOR) and _vendor(folder) == "amd")


def _vendor(folder: Path) -> str:
    code = text(folder / "vendor") or "unknown"
    return VENDORS.get(code, code)


def _id(folder: Path) -> str | None:
    vendor, model = text(folder / "vendor"), text(folder / "device")
    return f"{vendor.removeprefix('0x')}:{model.removeprefix('0x')}" if vendor and model else None


def _device(folder: Path, names: dict[str, str]) -> Device:
    model = _id(folder)
    total, free = _amdgpu(folder) or _xe(folder) or _i915(folder) or (None, None)
    return Device(_vendor(folder), bus=folder.name, name=text(folder / "product_name") or names.get(model or ""),
                  driver=_driver(folder), memory=total, free=free, id=model,
                  shared=number(folder / "mem_info_gtt_total"))


Told = tuple[int, int | None] | None
"""Bytes of a card's memory, and of those that nobody uses; None when this driver is not the one that tells."""


def _amdgpu(folder: Path) -> Told:
    total, used = number(folder / "mem_info_vram_total"), number(folder / "mem_info_vram_used")
    return None if total is None else (total, None if used is None else max(0, total - used))


def _xe(folder: Path) -> Told:
    """Each tile of a card has memory of its own; how much of it is used only root could read, in debugfs."""
    tiles = [number(tile / "physical_vram_size_bytes") for tile in _numbered(folder, "tile")]
    total = sum(size for size in tiles if size)
    return (total, None) if total else None


def _i915(folder: Path) -> Told:
    """Only Intel's own releases of this driver tell it; that of the kernel does not. 0 for graphics in a processor."""
    for card in _numbered(folder / "drm", "card"):
        if total := number(card / "lmem_total_bytes"):
            return total, number(card / "lmem_avail_bytes")
    return None


def _numbered(folder: Path, name: str) -> list[Path]:
    """The entries `name`0, `name`1, ... of a folder."""
    return [entry for entry in entries(folder) or ()
            if entry.name.startswith(name) and entry.name[len(name):].isdigit()]


def _driver(folder: Path) -> str | None:
    try:
        return os.path.basename(os.readlink(folder / "driver"))
    except OSError:
        return None


def _names(root: Path, ids: set[str | None]) -> dict[str, str]:
    """The names of these ids. In the file a vendor's models follow it, each behind one tab."""
    found: dict[str, str] = {}
    if not ids:
        return found
    lines = next((told for place in NAMES if (told := text(root / place))), "").splitlines()
    vendor = ""
    for line in lines:
        if line[:1] not in ("\t", "#", ""):
            vendor = line[:4]
        elif line[:1] == "\t" and line[1:2] != "\t" and f"{vendor}:{line[1:5]}" in ids:
            found[f"{vendor}:{line[1:5]}"] = line[5:].strip()
    return found
