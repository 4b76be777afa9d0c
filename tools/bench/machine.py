"""This machine, as the kernel tells of it: cores, CPU time, memory, and who is whose child."""

import datetime
import os
import platform
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

PROC = Path("/proc")


@dataclass(frozen=True)
class Layout:
    """Which core runs what. With a single core everything shares it, and the figures say less."""

    client: int
    """Client and engine."""
    proxy: int
    """The gateway that is measured."""

    @classmethod
    def here(cls) -> "Layout":
        cores = sorted(os.sched_getaffinity(0))
        return cls(cores[0], cores[min(1, len(cores) - 1)])

    def __str__(self) -> str:
        if self.client == self.proxy:
            return f"engine, client and gateway all on core {self.client}"
        return f"engine and client on core {self.client}, the gateway on core {self.proxy}"


def cpu_ns(pids: Iterable[int]) -> int:
    """Nanoseconds of CPU that these processes have used so far, with all their threads."""
    total = 0
    for pid in pids:
        with suppress(OSError):
            for thread in (PROC / str(pid) / "task").iterdir():
                with suppress(OSError):
                    total += int((thread / "schedstat").read_text().split()[0])
    return total


def pss_mib(pids: Iterable[int], part: str = "Pss") -> float:
    """Memory of these processes in MiB, with their part of what they share; `part` as the kernel calls it. Raises
    OSError when one is gone."""
    kib = 0
    for pid in pids:
        for line in (PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith(f"{part}:"):
                kib += int(line.split()[1])
    return kib / 1024


def family(pid: int) -> list[int]:
    """A process and its descendants, itself first."""
    children: dict[int, list[int]] = {}
    for entry in PROC.iterdir():
        with suppress(OSError, ValueError, IndexError):
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            children.setdefault(parent, []).append(int(entry.name))
    found = [pid]
    for member in found:
        found += children.get(member, [])
    return found


def pin(pid: int, core: int) -> None:
    """Keep a running process, all its threads, on one core."""
    for thread in (PROC / str(pid) / "task").iterdir():
        with suppress(ProcessLookupError):
            os.sched_setaffinity(int(thread.name), {core})


def moment() -> str:
    """When this is, to the minute, by the clock on the wall."""
    return datetime.datetime.now().isoformat(" ", "minutes")


def describe() -> dict[str, str]:
    """What a reader wants to know of the machine."""
    cpu = next((line.partition(":")[2].strip() for line in (PROC / "cpuinfo").read_text().splitlines()
                if line.startswith("model name")), platform.machine())
    memory = int((PROC / "meminfo").read_text().split()[1]) / 2**20
    return {"cpu": cpu, "cores": str(len(os.sched_getaffinity(0))), "memory": f"{memory:.0f} GiB",
            "kernel": platform.release(), "system": _system(), "python": platform.python_version()}


def _system() -> str:
    with suppress(OSError):
        return platform.freedesktop_os_release()["PRETTY_NAME"]
    return platform.system()
