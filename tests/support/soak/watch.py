"""What processes hold, and whether it grows."""

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

MIB = 2**20


@dataclass(frozen=True)
class Held:
    """What one process holds at rest."""

    pid: int
    descriptors: int
    threads: int

    @classmethod
    def by(cls, pid: int) -> "Held":
        return cls(pid, len(os.listdir(f"/proc/{pid}/fd")), len(os.listdir(f"/proc/{pid}/task")))


def peak(pid: int) -> int:
    """Bytes of memory that the process had at most since the last look."""
    with open(f"/proc/{pid}/status") as file:
        most = next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM:"))
    with open(f"/proc/{pid}/clear_refs", "w") as file:
        file.write("5")
    return most


def pss(pid: int) -> int:
    """Bytes of memory of a process, with its part of what it shares. Raises OSError when it is gone."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss:"))


@dataclass
class Curve:
    """The memory of one process, a point a second: seconds and bytes."""

    name: str
    pid: int
    points: list[tuple[float, int]] = field(default_factory=list)

    def steady(self) -> list[tuple[float, int]]:
        """Without the first third, in which everything is loaded and every cache fills."""
        return self.points[len(self.points) // 3:]

    def slope(self) -> float:
        """MiB a minute, of the line that fits best."""
        points = self.steady()
        if len(points) < 2:
            return 0.0
        middle = sum(at for at, _ in points) / len(points)
        level = sum(held for _, held in points) / len(points)
        spread = sum((at - middle) ** 2 for at, _ in points)
        return 60 * sum((at - middle) * (held - level) for at, held in points) / spread / MIB

    def growth(self) -> float:
        """MiB between the beginning and the end of the steady part, as its slope has it."""
        points = self.steady()
        return self.slope() * (points[-1][0] - points[0][0]) / 60 if points else 0.0

    def level(self) -> float:
        """MiB at the end."""
        return self.points[-1][1] / MIB if self.points else 0.0


class Watcher:
    """Draws curves while the block runs."""

    def __init__(self, processes: Sequence[tuple[str, int]], each: float = 1.0) -> None:
        self.curves = [Curve(name, pid) for name, pid in processes]
        self._each = each
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> "Watcher":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._over.wait(self._each):
            for curve in self.curves:
                with suppress(OSError):
                    curve.points.append((time.monotonic(), pss(curve.pid)))


def settled(read: Callable[[], list[Held]], limit: float = 15.0) -> list[Held]:
    """What is held once it has not changed for a second, or after `limit` seconds."""
    end, same_since, last = time.monotonic() + limit, time.monotonic(), read()
    while time.monotonic() < min(end, same_since + 1.0):
        time.sleep(0.2)
        now = read()
        if now != last:
            same_since, last = time.monotonic(), now
    return last
