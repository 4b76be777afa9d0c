"""`Forks`: the engine lanes of one data dir: the catalog read, a lane's build installed, a superseded one removed."""

import platform
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from blazar.download.fetch import Progress, Source, fetch
from blazar.engines.builds import Build
from blazar.engines.forks import FORKS, Fork, decide, main_number, tag_of
from blazar.engines.install.archive import extract
from blazar.engines.install.flavour import Machine, ladder
from blazar.engines.install.installer import Wishes, find_program
from blazar.engines.install.lanes import LaneAsset, read_catalog
from blazar.engines.install.shelf import KIND, Shelf
from blazar.engines.install.speed import Fault, starts
from blazar.engines.program import Program
from blazar.errors import ArchiveRefused, BuildRefused, LaneNotFound, NoAssetHere
from blazar.hardware.census import census
from blazar.models.catalog import Catalog
from blazar.units import timestamp


class Forks:
    """The lanes of one data dir."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    def refresh(self, url: str) -> None:
        """Read the catalog and keep what it says. Raises CatalogRefused; then what was kept before stays."""
        lanes = [lane.to_dict() for lane in read_catalog(url)]
        with self._shelf.changing():
            Catalog.offer(lanes, timestamp())
            Catalog.keep(name for name, _ in self._installed())

    def rows(self) -> list[dict[str, Any]]:
        """All lanes that are known, each with its installed `build` or None."""
        builds = {build.tag: build for build in self._shelf.builds.every(FORKS)}
        rows = Catalog.every() if self._shelf.paths.database.exists() else []
        return [{**row, "build": builds.get(tag_of(row["name"]))} for row in rows]

    def any_installed(self) -> bool:
        return bool(self._installed())

    def install(self, name: str, wishes: Wishes, progress: Progress) -> tuple[Build, bool]:
        """Install the lane's build beside the others; and whether anything changed.

        Raises LaneNotFound, NoAssetHere, ArchiveRefused, BuildRefused or what a download raises.
        """
        with self._shelf.changing():
            row = next((row for row in Catalog.every() if row["name"] == name and row["offered"]), None)
            if row is None:
                known = ", ".join(row["name"] for row in Catalog.every() if row["offered"])
                raise LaneNotFound(name=name, known=f"the catalog has {known}" if known else "the catalog has none")
            asset = _asset(name, [LaneAsset(**plain) for plain in row["assets"]], wishes.asset)
            tag = tag_of(name)
            present = next((build for build in self._shelf.builds.every(FORKS) if build.tag == tag), None)
            if present and present.sha256 == asset.sha256 and present.path.exists():
                return present, False
            archive = self._shelf.downloads / f"{tag}-{asset.sha256[:16]}"
            self._shelf.keep_downloads([archive.name])
            fetch(Source(asset.url, asset.sha256, asset.size), archive, progress, connections=wishes.connections,
                  bucket=wishes.bucket)
            build = self._place(name, asset, archive, wishes, progress)
            Catalog.superseded_since(name, None)
            self._shelf.keep_downloads(())
            return self._shelf.builds.find(build.tag), True

    def _place(self, name: str, asset: LaneAsset, archive: Path, wishes: Wishes, progress: Progress) -> Build:
        """Unpack the archive, see that its server runs here, and make it the lane's build."""
        tag = tag_of(name)
        with self._shelf.assembling(tag) as folder:
            extract(archive, folder, progress)
            program = find_program(folder)
            if program is None:
                raise ArchiveRefused(name=name, reason="it holds no llama-server")
            program.chmod(0o755)
            try:
                starts(Program(KIND, (str(program),), tag, tag=tag), wishes.env)
            except Fault as error:
                raise BuildRefused(tag=tag, reason=f"it does not start on this machine: {error}",
                                   remedy="nothing was installed") from error
            return self._shelf.place(folder, program, tag, asset.flavour,
                                     f"lane {name} of {urlsplit(asset.url).netloc}", asset.sha256, FORKS)

    def tend(self, days: int, now: float, needed: Collection[str] = ()) -> list[str]:
        """Retire what is superseded, but for the tags `needed`; the tags that were removed. `now` is in seconds of the
        Unix clock."""
        with self._shelf.changing():
            installed = dict(self._installed())
            forks = [_fork(row, installed[row["name"]], needed) for row in Catalog.every() if row["name"] in installed]
            removed = []
            for retiring in decide(now, forks, main_number(self._shelf.builds.every(KIND)), days):
                if retiring.step == "remove":
                    self._shelf.remove(installed[retiring.name])
                    removed.append(installed[retiring.name].tag)
                Catalog.superseded_since(retiring.name, _moment(now) if retiring.step == "mark" else None)
            return removed

    def _installed(self) -> list[tuple[str, Build]]:
        return [(build.tag.removeprefix("fork-"), build) for build in self._shelf.builds.every(FORKS)]


def _fork(row: Mapping[str, Any], build: Build, needed: Collection[str]) -> Fork:
    since = datetime.fromisoformat(row["since"]).timestamp() if row["since"] else None
    return Fork(row["name"], row["curated"], build.pinned or build.tag in needed, row["architectures"],
                row["superseded"], since)


def _moment(now: float) -> str:
    return datetime.fromtimestamp(now).astimezone().isoformat(timespec="seconds")


def _asset(name: str, assets: Sequence[LaneAsset], wanted: str) -> LaneAsset:
    """The archive for this machine, in the fastest flavour that runs here."""
    mine = [asset for asset in assets if asset.machine == platform.machine()]
    for family in ladder(Machine.of(census())) if wanted == "auto" else (wanted,):
        for asset in mine:
            if asset.flavour == family or asset.flavour.startswith(f"{family}-"):
                return asset
    raise NoAssetHere(tag=tag_of(name), arch=platform.machine(), offered=", ".join(a.flavour for a in mine) or "none",
                      wanted="that runs" if wanted == "auto" else f"of the flavour {wanted!r}")
