"""Does a driver work with each GPU, and may this user use it?"""

import os
from collections.abc import Iterator
from pathlib import Path

from blazar.doctor.check import Finding, Surroundings, this_user
from blazar.hardware.census import Census
from blazar.hardware.device import Device

WORKING = {"nvidia": ("nvidia",), "amd": ("amdgpu",), "intel": ("i915", "xe")}
"""By vendor: the kernel drivers with which an engine can compute."""
THEN = ", restart the machine, then `blazar engine update`"
REMEDIES = {"nvidia": "with Debian's non-free among the sources: `sudo apt install nvidia-driver`" + THEN,
            "amd": "with Debian's non-free-firmware among the sources: `sudo apt install firmware-amd-graphics`" + THEN,
            "intel": "a newer kernel may know it, such as that of Debian's backports: `sudo apt install -t "
                     "bookworm-backports linux-image-amd64`" + THEN}
XE = ("from Linux 6.8 on the driver xe tells it: boot with `i915.force_probe=!{model} xe.force_probe={model}`, or say "
      "by devices, tensor_split or extra_args where models go")
VULKAN = "on Debian: `sudo apt install mesa-vulkan-drivers`, then `blazar engine update`"
NODES = {"nvidia": ("nvidia[0-9]*",), "amd": ("kfd", "dri/renderD*"), "intel": ("dri/renderD*",)}
"""By vendor: the files in /dev through which programs reach its cards."""
CONTAINER = "a container must be given the card: `docker run --gpus all` for NVIDIA, `--device /dev/dri` for others"


def check_drivers(surroundings: Surroundings, dev: Path = Path("/dev")) -> Finding:
    census = surroundings.census
    problems = list(_of_the_kernel(census)) or list(_beyond_it(census))
    if not problems and not surroundings.elsewhere:
        problems = list(_of_files(census, dev))
    for found, remedy in problems:
        return Finding("drivers", "warn", found, remedy)
    version = f" {census.nvidia_driver}" if census.nvidia_driver else ""
    drivers = dict.fromkeys(f"{gpu.driver}{version if gpu.vendor == 'nvidia' else ''}" for gpu in census.known_gpus)
    return Finding("drivers", "ok", ", ".join(drivers) or "no GPU that needs one")


def _of_the_kernel(census: Census) -> Iterator[tuple[str, str]]:
    idle = [gpu for gpu in census.known_gpus if gpu.driver not in WORKING[gpu.vendor]]
    for vendor in dict.fromkeys(gpu.vendor for gpu in idle):
        cards = ", ".join(_called(gpu) for gpu in idle if gpu.vendor == vendor)
        yield f"no driver works with {cards}", REMEDIES[vendor]
    for gpu in census.known_gpus:
        if _is_silent(gpu):
            card = gpu.name or f"the card at {gpu.bus}"
            yield (f"the kernel's i915 does not tell the memory of {card}, so plans count main memory alone",
                   XE.format(model=(gpu.id or "").partition(":")[2]))


def _beyond_it(census: Census) -> Iterator[tuple[str, str]]:
    """NVIDIA's cards have CUDA; all others are reached through Vulkan."""
    others = [gpu for gpu in census.known_gpus if gpu.vendor != "nvidia"]
    if others and census.has_vulkan is False:
        yield f"there is no Vulkan driver for {', '.join(map(_called, others))}, so engines use the processor", VULKAN


def _of_files(census: Census, dev: Path) -> Iterator[tuple[str, str]]:
    for vendor in dict.fromkeys(gpu.vendor for gpu in census.known_gpus):
        there = [file for pattern in NODES[vendor] for file in sorted(dev.glob(pattern))]
        shut = [file for file in there if not os.access(file, os.R_OK | os.W_OK)]
        if not there:
            yield f"the driver of {vendor} is loaded, and there is no {dev / NODES[vendor][-1]}", CONTAINER
        elif shut:
            yield (f"{this_user()} may not use {', '.join(map(str, shut))}",
                   f"`sudo usermod -aG render,video {this_user()}`, then log in again")


def _called(gpu: Device) -> str:
    return f"{gpu.name or gpu.id or gpu.vendor} at {gpu.bus}"


def _is_silent(gpu: Device) -> bool:
    """A card of Intel's whose driver tells no memory. Graphics in a processor always sit on the first bus."""
    return (gpu.vendor == "intel" and gpu.driver == "i915" and gpu.memory is None
            and not (gpu.bus or "").startswith("0000:00:"))
