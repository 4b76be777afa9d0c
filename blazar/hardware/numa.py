"""Memory nodes: which processors are close to which part of main memory."""

from dataclasses import dataclass
from pathlib import Path

from blazar.hardware.files import entries, text


@dataclass(frozen=True)
class Node:
    """One memory node; most machines have one."""

    number: int
    cpus: str | None = None
    """The processors beside it, as `0-15,32-47`; empty where there are none."""
    memory: int | None = None
    """Bytes of its memory in all."""


def read_nodes(root: Path) -> tuple[Node, ...] | None:
    """The nodes that sysfs under `root` shows; None when it cannot be read."""
    folders = entries(root / "sys/devices/system/node")
    if folders is None:
        return None
    numbered = ((folder.name[4:], folder) for folder in folders if folder.name.startswith("node"))
    found = (Node(int(number), text(folder / "cpulist"), _memory(folder)) for number, folder in numbered
             if number.isascii() and number.isdigit())
    return tuple(sorted(found, key=lambda node: node.number))


def _memory(folder: Path) -> int | None:
    """`Node 0 MemTotal:  65780000 kB`"""
    for line in (text(folder / "meminfo") or "").splitlines():
        words = line.split()
        if len(words) == 5 and words[2] == "MemTotal:" and words[3].isdigit():
            return int(words[3]) * 1024
    return None
