"""Limits of memory that the control groups of this process set, version 1 and 2, nested ones included."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from blazar.hardware.files import number, text

UNLIMITED = 1 << 60
"""Bytes: version 1 writes a number beyond any machine where there is no limit."""


@dataclass(frozen=True)
class Hierarchy:
    """How one version calls its files."""

    limits: tuple[str, ...]
    usage: str
    reclaimable: tuple[str, ...]
    """The lines of memory.stat with the bytes of file cache, which the kernel takes back before anything else."""


V1 = Hierarchy(("memory.limit_in_bytes",), "memory.usage_in_bytes",
               ("total_inactive_file", "total_active_file"))
V2 = Hierarchy(("memory.max", "memory.high"), "memory.current", ("inactive_file", "active_file"))


@dataclass(frozen=True)
class Allowance:
    """What the groups leave: the smallest limit, and the smallest rest under any of them; None = no limit."""

    limit: int | None = None
    rest: int | None = None


def read_allowance(root: Path) -> Allowance:
    """The limits on this process, from its own group up to the topmost that can be seen under `root`."""
    limits, rests = [], []
    for hierarchy, folder, top in _groups(root):
        for level in (folder, *folder.parents):
            limit = min((one for name in hierarchy.limits if (one := number(level / name)) is not None
                         and one < UNLIMITED), default=None)
            if limit is not None:
                limits.append(limit)
                used = number(level / hierarchy.usage)
                if used is not None:
                    rests.append(max(0, limit - max(0, used - _reclaimable(level, hierarchy.reclaimable))))
            if level == top:
                break
    return Allowance(min(limits, default=None), min(rests, default=None))


def _groups(root: Path) -> Iterator[tuple[Hierarchy, Path, Path]]:
    """For each hierarchy that limits memory: the folder of this process's group, and the topmost folder."""
    mine: dict[str, str] = {}
    for line in (text(root / "proc/self/cgroup") or "").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        mine |= dict.fromkeys(controllers.split(","), path)
    for line in (text(root / "proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        places, kinds = before.split(), after.split()
        if len(places) < 5 or len(kinds) < 3:
            continue
        top = root / places[4].lstrip("/")
        if kinds[0] == "cgroup2" and "" in mine:
            yield V2, _inside(top, places[3], mine[""]), top
        elif kinds[0] == "cgroup" and "memory" in kinds[2].split(",") and "memory" in mine:
            yield V1, _inside(top, places[3], mine["memory"]), top


def _inside(top: Path, mounted: str, path: str) -> Path:
    """Where the group `path` lies when the group `mounted` is what one sees at `top`; `top` when it is not inside."""
    group = PurePosixPath(path)
    if ".." in group.parts or not group.is_relative_to(mounted):
        return top
    return top / group.relative_to(mounted)


def _reclaimable(level: Path, names: tuple[str, ...]) -> int:
    lines = (line.partition(" ") for line in (text(level / "memory.stat") or "").splitlines())
    return sum(int(value) for key, _, value in lines if key in names and value.isdigit())
