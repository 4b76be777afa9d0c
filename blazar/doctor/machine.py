"""What is this machine, and does a driver work with each of its cards?"""

from blazar.doctor.check import Finding, Surroundings
from blazar.hardware.census import Census
from blazar.hardware.device import Device
from blazar.units import format_bytes

WORKING = {"nvidia": ("nvidia",), "amd": ("amdgpu",), "intel": ("i915", "xe")}
"""By vendor: the kernel drivers with which an engine can compute."""
REMEDIES = {"nvidia": "install NVIDIA's driver (on Debian `apt install nvidia-driver`, from non-free) and restart",
            "amd": "install AMD's firmware (on Debian `apt install firmware-amd-graphics`, from non-free-firmware)",
            "intel": "a newer kernel may know this card"}

XE = ("from Linux 6.8 on the driver xe tells it: boot with i915.force_probe=!{model} xe.force_probe={model}, or say by "
      "devices, tensor_split or extra_args where models go")


def check_machine(surroundings: Surroundings) -> Finding:
    census = surroundings.census
    found = ", ".join([_main_memory(census), *(_told(gpu) for gpu in census.gpus or () if gpu.vendor in WORKING)])
    idle = [gpu for gpu in census.gpus or () if gpu.vendor in WORKING and gpu.driver not in WORKING[gpu.vendor]]
    if idle:
        cards = ", ".join(f"{gpu.name or gpu.id or gpu.vendor} at {gpu.bus}" for gpu in idle)
        return Finding("machine", "warn", f"{found}; no driver works with {cards}", REMEDIES[idle[0].vendor])
    silent = [gpu for gpu in census.gpus or () if _is_silent(gpu)]
    if silent:
        model = (silent[0].id or "").partition(":")[2]
        card = silent[0].name or f"the card at {silent[0].bus}"
        return Finding("machine", "warn", f"{found}; the kernel's i915 does not tell the memory of {card}, so plans "
                       "count main memory alone", XE.format(model=model))
    return Finding("machine", "ok", found)


def _is_silent(gpu: Device) -> bool:
    """A card of Intel's whose driver tells no memory. Graphics in a processor always sit on the first bus."""
    return (gpu.vendor == "intel" and gpu.driver == "i915" and gpu.memory is None
            and not (gpu.bus or "").startswith("0000:00:"))


def _main_memory(census: Census) -> str:
    usable, limit = census.memory.usable, census.memory.limit
    if usable is None:
        return "memory unknown"
    limited = limit is not None and usable == limit
    return f"{format_bytes(usable)} memory{' by a limit of its control group' if limited else ''}"


def _told(gpu: Device) -> str:
    name = gpu.name or f"{gpu.vendor} GPU"
    if gpu.is_card and gpu.memory is not None:
        return f"{name} with {format_bytes(gpu.memory)}"
    return f"{name} without memory of its own that is known"
