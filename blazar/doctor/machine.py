"""What is this machine?"""

from blazar.doctor.check import Finding, Surroundings
from blazar.hardware.census import Census
from blazar.hardware.device import Device
from blazar.units import format_bytes


def check_machine(surroundings: Surroundings) -> Finding:
    census = surroundings.census
    return Finding("machine", "ok", ", ".join([_main_memory(census), *(_told(gpu) for gpu in census.known_gpus)]))


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
