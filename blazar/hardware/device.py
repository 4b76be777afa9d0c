"""`Device`: one GPU."""

from dataclasses import dataclass

LITTLE = 4 << 30
"""Bytes that firmware sets aside for graphics inside a processor, at most, where the rest is shared."""


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
    id: str | None = None
    """PCI vendor and model, as `10de:2684`."""
    uuid: str | None = None
    """NVIDIA's name for this very card."""
    shared: int | None = None
    """Bytes of main memory that it may use besides its own."""

    @property
    def is_card(self) -> bool:
        """Whether it has memory of its own that can hold a model; graphics inside a processor have at most a little,
        set aside from main memory."""
        return self.memory is not None and not (self.memory <= LITTLE and (self.shared or 0) >= 8 * self.memory)
