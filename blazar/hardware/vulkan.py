"""Vulkan drivers, as the files tell from which the Vulkan loader takes them."""

import json
from dataclasses import dataclass
from pathlib import Path

from blazar.hardware.files import entries, text

FOLDERS = ("etc/vulkan/icd.d", "usr/local/share/vulkan/icd.d", "usr/share/vulkan/icd.d")
SOFTWARE = ("lvp_", "swrast")
"""How the files of drivers begin that compute on the processor."""


@dataclass(frozen=True)
class Icd:
    """One installable client driver."""

    name: str
    """Its file's name, as `radeon_icd.x86_64.json`."""
    library: str | None = None
    version: str | None = None
    """The Vulkan version it speaks."""

    @property
    def software(self) -> bool:
        """Whether it is no GPU's driver."""
        return self.name.startswith(SOFTWARE)


def read_icds(root: Path) -> tuple[Icd, ...] | None:
    """The drivers under `root`; of several files of one name the first counts. None when a folder is unreadable."""
    found: dict[str, Icd] = {}
    for folder in FOLDERS:
        files = entries(root / folder)
        if files is None:
            return None
        for file in files:
            if file.suffix == ".json" and file.name not in found:
                found[file.name] = _icd(file)
    return tuple(found[name] for name in sorted(found))


def _icd(file: Path) -> Icd:
    try:
        told = json.loads(text(file) or "")["ICD"]
        library, version = told.get("library_path"), told.get("api_version")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return Icd(file.name)
    return Icd(file.name, library if isinstance(library, str) else None, version if isinstance(version, str) else None)
