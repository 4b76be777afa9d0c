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
    """amdgpu and Intel's xe tell the memory in sysfs; of others the bus does not know it."""
    total, used = number(folder / "mem_info_vram_total"), number(folder / "mem_info_vram_used")
    if total is None:
        tiles = [number(tile / "physical_vram_size_bytes") for tile in entries(folder) or () if _is_tile(tile)]
        total = sum(size for size in tiles if size) or None
    model = _id(folder)
    return Device(_vendor(folder), bus=folder.name, name=text(folder / "product_name") or names.get(model or ""),
                  driver=_driver(folder), memory=total,
                  free=None if total is None or used is None else max(0, total - used), id=model,
                  shared=number(folder / "mem_info_gtt_total"))


def _is_tile(folder: Path) -> bool:
    return folder.name.startswith("tile") and folder.name[4:].isdigit()


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
