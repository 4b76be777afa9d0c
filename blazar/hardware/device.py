"""`Device`: one GPU."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Device:
    """One GPU, as the PCI bus and its driver tell of it."""

    vendor: str
    """`nvidia`, `amd`, `intel`, or the PCI vendor's number as `0x1af4`."""
    bus: str | None = None
    """Its PCI address, as `0000:01:00.0`."""
    name: str | None = None
    driver: str | None = None
    """The kernel driver that is bound to it; None when there is none, or nobody knows."""
    memory: int | None = None
    """Bytes of its own memory in all."""
    free: int | None = None
    """Bytes of it that nobody used at the time."""
    compute: str | None = None
    """NVIDIA's compute capability, as `8.9`."""
