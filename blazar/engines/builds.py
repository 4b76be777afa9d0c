"""`Builds`: the engine builds of one data dir: files in `engines/<tag>/`, and a row for each."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blazar.engines.program import EMBEDDED_FLAVOUR, EMBEDDED_MODULE, Program
from blazar.errors import BuildNotFound
from blazar.models.base import open_database
from blazar.models.engine import Engine
from blazar.paths import Paths
from blazar.store.schema import prepare_database


@dataclass(frozen=True)
class Build:
    """One installed build."""

    kind: str
    tag: str
    path: Path
    """The program, absolute; for the flavour `embedded` the Python that has xllamacpp."""
    flavour: str
    source: str
    sha256: str | None
    installed_at: str
    active: bool
    pinned: bool
    turn: int

    @classmethod
    def from_row(cls, row: Mapping[str, Any], data_dir: Path) -> "Build":
        return cls(**{**row, "path": data_dir / row["path"], "active": bool(row["active"]),
                      "pinned": bool(row["pinned"])})

    def to_dict(self) -> dict[str, Any]:
        """What `blazar engine list` and `show` print."""
        return {"tag": self.tag, "kind": self.kind, "flavour": self.flavour, "active": self.active,
                "pinned": self.pinned, "path": str(self.path), "source": self.source, "sha256": self.sha256,
                "installed_at": self.installed_at}

    @property
    def engine(self) -> str:
        """The engine that it is, or that it is a fork of."""
        return self.kind.removesuffix("-fork")

    @property
    def program(self) -> Program:
        """How it is run."""
        if self.flavour == EMBEDDED_FLAVOUR:
            return Program(self.engine, (str(self.path), *EMBEDDED_MODULE), EMBEDDED_FLAVOUR, tag=self.tag)
        return Program(self.engine, (str(self.path),), self.tag, tag=self.tag)


def uses_cards(program: Program, builds: Iterable[Build]) -> bool:
    """Whether `program` may compute on a card: builds for processors alone do not, of others nobody knows it."""
    flavour = next((build.flavour for build in builds if build.tag == program.tag), program.source)
    return flavour != EMBEDDED_FLAVOUR and not flavour.startswith("cpu")


class Builds:
    """Reads the rows; an empty or missing data dir has none, and looking at it creates nothing."""

    def __init__(self, paths: Paths, holds_daemon_lock: bool = False) -> None:
        self._paths = paths
        self._holds_daemon_lock = holds_daemon_lock

    def every(self, kind: str | None = None) -> list[Build]:
        """All builds, by kind and tag."""
        if not self._opened():
            return []
        return [Build.from_row(row, self._paths.data_dir) for row in Engine.every(kind)]

    def find(self, tag: str) -> Build:
        """The build of that tag. Raises BuildNotFound, which names those that are here."""
        builds = self.every()
        for build in builds:
            if build.tag == tag:
                return build
        raise BuildNotFound(tag=tag, known=listed([build.tag for build in builds]))

    def in_use(self, kind: str) -> Build | None:
        """The active build of `kind`, or None."""
        row = Engine.in_use(kind) if self._opened() else None
        return None if row is None else Build.from_row(row, self._paths.data_dir)

    def _opened(self) -> bool:
        if not self._paths.database.exists():
            return False
        prepare_database(self._paths, self._holds_daemon_lock)
        open_database(self._paths.database)
        return True


def listed(tags: list[str]) -> str:
    """`tags` for a message."""
    return f"installed are {', '.join(tags)}" if tags else "none is installed"
