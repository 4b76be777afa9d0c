"""`Shelf`: the engine builds of a data dir, changed: put in place, taken into use, removed.

A build is whole before it gets its name `engines/<tag>/`, and loses that name before its files go. What is under way
lies in `engines/.incoming/`; one command at a time changes anything.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path

from blazar.download.sweep import is_given_up
from blazar.engines.builds import Build, Builds
from blazar.engines.routing import KIND
from blazar.errors import BuildInUse, BuildNotFound, EnginesBusy, UsageRefused
from blazar.models.base import open_database
from blazar.models.engine import Engine
from blazar.paths import Paths, flush_folder
from blazar.store.locks import told_in_words, try_lock
from blazar.store.schema import prepare_database
from blazar.units import timestamp

_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class Shelf:
    def __init__(self, paths: Paths) -> None:
        self.paths = paths
        self.builds = Builds(paths)
        self._incoming = paths.engines / ".incoming"

    @property
    def downloads(self) -> Path:
        """Where archives arrive; a partial one stays there, to be resumed, until it is given up."""
        return self._incoming / "downloads"

    @contextlib.contextmanager
    def changing(self) -> Iterator[None]:
        """Hold the right to change builds, and sweep what an interrupted command left. Raises EnginesBusy."""
        with told_in_words(self.paths.data_dir):
            self.paths.ensure()
            self.downloads.mkdir(parents=True, exist_ok=True)
            lock = try_lock(self._incoming)
        if lock is None:
            raise EnginesBusy(data_dir=self.paths.data_dir)
        try:
            prepare_database(self.paths, holds_daemon_lock=False)
            open_database(self.paths.database)
            self._sweep()
            if is_given_up(self.downloads):
                self.keep_downloads(())
            yield
        finally:
            os.close(lock)

    def keep_downloads(self, names: Iterable[str]) -> None:
        """Drop what was downloaded for other builds, or in part."""
        kept = tuple(names)
        for file in self.downloads.iterdir():
            if not any(file.name == name or file.name.startswith(f"{name}.part") for name in kept):
                file.unlink(missing_ok=True)

    @contextlib.contextmanager
    def assembling(self, tag: str) -> Iterator[Path]:
        """A fresh folder in which a build is put together; what was not placed is gone afterwards."""
        folder = self._incoming / f"build-{checked(tag)}"
        try:
            with told_in_words(folder):
                folder.mkdir()
                yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def place(self, folder: Path, program: Path, tag: str, flavour: str, source: str,
              sha256: str | None, kind: str = KIND) -> Build:
        """Make the finished `folder` the build `tag`, whose program lies in it.

        A new build is not in use yet; one that takes the place of another is what that was.
        """
        home = self.paths.engines / checked(tag)
        with told_in_words(home):
            flush_folders(folder)
            self._retire(tag)  # a folder without a row: what a kill between the two next lines left
            folder.rename(home)
            flush_folder(self.paths.engines)
        path = home / program.relative_to(folder)
        place = Engine.find(kind, tag) or {"active": False, "pinned": False, "turn": 0}
        Engine.put(**{**place, "kind": kind, "tag": tag, "path": str(path.relative_to(self.paths.data_dir)),
                      "flavour": flavour, "source": source, "sha256": sha256,
                      "installed_at": timestamp("milliseconds")})
        self._sweep()
        return self.builds.find(tag)

    def take_into_use(self, build: Build) -> None:
        if not Engine.activate(build.kind, build.tag):
            raise BuildNotFound(tag=build.tag, known="it was removed a moment ago")

    def remove(self, build: Build) -> None:
        """Forget a build and delete its files, if they are ours. Raises BuildInUse for the one in use."""
        if self.builds.find(build.tag).active:
            raise BuildInUse(tag=build.tag, reason="in use", remedy="`blazar engine use TAG` takes another one first")
        Engine.forget(build.kind, build.tag)
        if (self.paths.engines / build.tag) in build.path.parents:
            with told_in_words(self.paths.engines):
                self._retire(build.tag)
        self._sweep()

    def _retire(self, tag: str) -> None:
        """Take the name from a build's folder; `_sweep` deletes it then."""
        home = self.paths.engines / checked(tag)
        if home.exists():
            gone = self._incoming / f"gone-{tag}"
            shutil.rmtree(gone, ignore_errors=True)
            home.rename(gone)

    def _sweep(self) -> None:
        """Delete folders that are no builds (any more)."""
        for folder in self._incoming.iterdir():
            if folder != self.downloads:
                shutil.rmtree(folder, ignore_errors=True)


def checked(tag: str) -> str:
    """`tag`, which may be the name of a folder. Raises UsageRefused."""
    if not _TAG.fullmatch(tag):
        raise UsageRefused(f"{tag[:60]!r} is no tag of an engine build; one looks like b11434")
    return tag


def flush_folders(top: Path) -> None:
    """Make the names in `top` and below durable; whoever wrote the files has flushed them."""
    for folder, _, _ in os.walk(top):
        flush_folder(Path(folder))
