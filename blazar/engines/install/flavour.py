"""Which archives of a release suit this machine.

llama.cpp names them `llama-TAG-bin-ubuntu-FLAVOUR-ARCH.tar.gz`, without a flavour when they need no GPU. The runtime
of a CUDA build is an archive of its own, `cudart-` before that name.
"""

import platform
import re
from collections.abc import Sequence
from dataclasses import dataclass

from blazar.engines.install.release import Asset, Release
from blazar.errors import NoAssetHere
from blazar.hardware.census import Census

ARCHES = {"x86_64": "x64", "amd64": "x64", "aarch64": "arm64", "arm64": "arm64", "s390x": "s390x",
          "ppc64le": "ppc64le", "riscv64": "riscv64"}
PLAIN = "cpu"
CUDA_DRIVERS = {13: 580, 12: 525}
"""The oldest NVIDIA driver that runs builds of each major version of CUDA."""


@dataclass(frozen=True)
class Machine:
    """What decides about the flavour. `nvidia_driver` is the driver's major version, None when there is none or
    nobody knows; `vulkan` says whether a Vulkan driver is installed for a GPU that is here."""

    arch: str
    nvidia_driver: int | None = None
    vulkan: bool = False

    @classmethod
    def of(cls, census: Census) -> "Machine":
        driver = re.match(r"\d+", census.nvidia_driver or "")
        has_gpu = census.gpus is None or bool(census.gpus)
        return cls(this_arch(), int(driver[0]) if driver else None, has_gpu and census.has_vulkan is True)


@dataclass(frozen=True)
class Choice:
    """A build to install: its archive, and what has to lie beside it."""

    release: Release
    flavour: str
    archive: Asset
    companions: tuple[Asset, ...]

    @property
    def size(self) -> int:
        """Bytes to download, as far as the server told."""
        return sum(asset.size or 0 for asset in (self.archive, *self.companions))


def this_arch() -> str:
    """The machine's architecture as release files name it."""
    return ARCHES.get(platform.machine().lower(), platform.machine().lower())


def choose(releases: Sequence[Release], wanted: str, machine: Machine) -> Choice:
    """The build for this machine in the first of `releases` that has it; `wanted` is a flavour, or `auto`.

    `auto` takes the fastest flavour that any of them has, so that a release which is still uploading does not bring a
    slower one. Raises NoAssetHere.
    """
    for family in ladder(machine) if wanted == "auto" else (wanted,):
        for release in releases:
            offered = flavours(release, machine.arch)
            flavour = _of_family(family, list(offered), machine)
            if flavour is not None:
                archive = offered[flavour]
                runtime = release.asset(f"cudart-{archive.name}")
                return Choice(release, flavour, archive, (runtime,) if runtime else ())
    offered = flavours(releases[0], machine.arch) if releases else {}
    raise NoAssetHere(tag=releases[0].tag if releases else "list", arch=machine.arch,
                      wanted="that runs" if wanted == "auto" else f"of the flavour {wanted!r}",
                      offered=", ".join(sorted(offered)) or "none for it at all")


def flavours(release: Release, arch: str) -> dict[str, Asset]:
    """The archives of `release` for that architecture, by flavour."""
    form = re.compile(rf"llama-{re.escape(release.tag)}-bin-(?:ubuntu|linux)-(?:([a-z0-9.-]+)-)?{re.escape(arch)}"
                      rf"\.(?:tar\.gz|tgz|zip)")
    found = ((form.fullmatch(asset.name), asset) for asset in release.assets)
    return {match[1] or PLAIN: asset for match, asset in found if match}


def ladder(machine: Machine) -> Sequence[str]:
    """The flavours that run here, the fastest first."""
    return [*(["cuda"] if machine.nvidia_driver is not None else []), *(["vulkan"] if machine.vulkan else []), PLAIN]


def _of_family(family: str, offered: Sequence[str], machine: Machine) -> str | None:
    """`cuda` means the newest CUDA that the driver runs; a full flavour such as `cuda-13.4` means itself."""
    if family in offered:
        return family
    members = [one for one in offered if one.startswith(f"{family}-")]
    if family == "cuda" and machine.nvidia_driver is not None:
        members = [one for one in members if machine.nvidia_driver >= _oldest_driver(one)]
    return max(members, key=_version, default=None)


def _oldest_driver(flavour: str) -> int:
    return CUDA_DRIVERS.get(_version(flavour)[0], max(CUDA_DRIVERS.values()))


def _version(flavour: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", flavour)) or (0,)
