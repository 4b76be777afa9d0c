"""Main memory: what the machine has, and what the control groups of this process leave of it."""

from dataclasses import dataclass
from pathlib import Path

from blazar.hardware.cgroup import read_allowance
from blazar.hardware.files import text


@dataclass(frozen=True)
class Memory:
    """All in bytes; None = not known, and for the last two also: no limit."""

    total: int | None = None
    available: int | None = None
    """What the kernel thinks can be had without swapping."""
    limit: int | None = None
    """The smallest limit that a control group sets."""
    limit_rest: int | None = None
    """What is left under the tightest of these limits."""

    @property
    def usable(self) -> int | None:
        """Bytes that this process could ever have."""
        return _least(self.total, self.limit)

    @property
    def free(self) -> int | None:
        """Bytes that this process could have now."""
        return _least(self.available, self.limit_rest)


def read_memory(root: Path) -> Memory:
    """Memory as the files under `root` tell it."""
    sizes = {}
    for line in (text(root / "proc/meminfo") or "").splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if len(words) == 2 and words[0].isdigit() and words[1] == "kB":
            sizes[name] = int(words[0]) * 1024
    allowance = read_allowance(root)
    return Memory(sizes.get("MemTotal"), sizes.get("MemAvailable"), allowance.limit, allowance.rest)


def _least(*sizes: int | None) -> int | None:
    return min((size for size in sizes if size is not None), default=None)
