"""`Store`: the models of one data dir: files by content in `models/blobs/`, and an index row for each name."""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from blazar.errors import ModelFileRefused, ModelNotFound, NameTaken, StoreUnwritable
from blazar.models.alias import Alias
from blazar.models.base import open_database
from blazar.models.installed_model import InstalledModel
from blazar.paths import Paths
from blazar.store.facts import read_facts
from blazar.store.installed import Installed, blob_path
from blazar.store.locks import locked, told_in_words
from blazar.store.naming import default_name, full_name
from blazar.store.resolve import resolve
from blazar.store.schema import prepare_database
from blazar.store.workspace import Waiting, workspace
from blazar.units import format_bytes

Progress = Callable[[str, int, int | None], None]
"""Called with the stage (`download`, `verify`, `install`), the bytes done, and the bytes in all if known."""

BLOCK = 1 << 20
"""Bytes copied at once."""

Summary = dict[str, Any]


def silent(stage: str, done: int, total: int | None) -> None:
    """A `Progress` that tells nobody."""


class Store:
    """Used by the daemon and by local verbs alike; store.lock is held only for each rename and transaction."""

    def __init__(self, paths: Paths, holds_daemon_lock: bool = False) -> None:
        """`holds_daemon_lock` says that the caller is the daemon, who may bring an older database up to date."""
        self.paths = paths
        self._holds_daemon_lock = holds_daemon_lock
        self._is_prepared = False

    # -- looking ---------------------------------------------------------------------------------------------

    def list(self) -> list[Summary]:
        """A summary of each model, by name."""
        return [model.summary() for model in self._every()]

    def snapshot_models(self) -> dict[str, Summary]:
        """Summaries by name, as the gateway's snapshot holds them."""
        return {model.name: model.summary() for model in self._every()}

    def aliases(self) -> dict[str, str]:
        """Canonical names by alias."""
        self._prepare()
        return Alias.targets()

    def get(self, name: str) -> Installed:
        """The model that the reference `name` means, with its file in place.

        Raises NameRefused, ModelNotFound, ModelAmbiguous, or ModelFileRefused when the file is gone.
        """
        model = self._row(name)
        if self.blob(model.digest, model.size) is None:
            raise ModelFileRefused(path=model.file, reason=f"the store's file of {model.name} is gone or was changed; "
                                                           f"pull the model again")
        return model

    def describe(self, name: str) -> Summary:
        """All that is known of the model that the reference `name` means, as plain values."""
        return self._row(name).description()

    def blob(self, digest: str, size: int) -> Path | None:
        """The file of that content, when it is here already."""
        file = blob_path(self.paths.blobs, digest)
        return file if file.is_file() and file.stat().st_size == size else None

    # -- changing --------------------------------------------------------------------------------------------

    def install_file(self, path: Path, name: str | None = None, source: str | None = None,
                     progress: Progress = silent) -> Summary:
        """Copy the GGUF file `path` into the store; the summary of the model, and whether anything `changed`.

        Without a name it is named after its title, or after the file; the variant is its quantisation.
        """
        facts = read_facts(path)
        if name is not None:
            full_name(name, facts)
        with self.workspace(facts.size) as folder:
            partial = folder / "model.gguf"
            with told_in_words(folder), open(partial, "xb") as copy:
                digest = copy_hashed(_blocks(path), copy, facts.size, "install", progress)
            fallback = default_name(facts, path)
            return self.adopt(partial, digest, name, fallback, source or f"file {_text_of(path.absolute())}")

    def adopt(self, partial: Path, digest: str, name: str | None, fallback: str, source: str,
              license: str | None = None) -> Summary:
        """Make the finished file `partial` of a workspace a model; its answer is that of `install_file`.

        With a `name` a model of that name is replaced; the `fallback` name is taken only if it is free.
        """
        facts = read_facts(partial)
        model = Installed(full_name(name or fallback, facts), digest, facts.size, facts, source,
                          license or facts.license, None, None, _now(), blob_path(self.paths.blobs, digest))
        with told_in_words(self.paths.blobs), locked(self.paths.store_lock):
            row = InstalledModel.find(model.name)
            if row and row["digest"] != digest and name is None:
                raise NameTaken(name=model.name)
            is_here = self.blob(digest, facts.size) is not None
            if row and row["digest"] == digest and is_here:
                return {**Installed.from_row(row, self.paths.blobs).summary(), "changed": False}
            if not is_here:
                _place(partial, model.file)
            InstalledModel.put(**model.to_row())
            Alias.forget(model.name)
            if row and row["digest"] != digest:
                self._free(row["digest"])
        return {**model.summary(), "changed": True}

    def remove(self, name: str) -> Summary:
        """Remove the model that the reference `name` means; its summary, with the bytes `freed`."""
        self._prepare()
        with told_in_words(self.paths.blobs), locked(self.paths.store_lock):
            model = self._row(name)
            Alias.forget_target(model.name)
            InstalledModel.forget(model.name)
            freed = self._free(model.digest)
        return {**model.summary(), "freed": model.size if freed else 0}

    @contextlib.contextmanager
    def workspace(self, size: int, work: str | None = None, waiting: Waiting | None = None) -> Iterator[Path]:
        """A folder in which `size` bytes can be gathered; see `workspace.py`. Raises StoreUnwritable."""
        self._prepare()
        with told_in_words(self.paths.incoming):
            disk = os.statvfs(self.paths.incoming)
        free = disk.f_bavail * disk.f_frsize
        if size > free:
            raise StoreUnwritable(path=self.paths.models, reason=f"the model needs {format_bytes(size)} and "
                                                                 f"{format_bytes(free)} are free",
                                  remedy="free some space, or choose another `--data-dir`")
        with workspace(self.paths, work, waiting) as folder:
            yield folder

    # -- inside ----------------------------------------------------------------------------------------------

    def _every(self) -> Iterator[Installed]:
        self._prepare()
        return (Installed.from_row(row, self.paths.blobs) for row in InstalledModel.every())

    def _row(self, reference: str) -> Installed:
        self._prepare()
        name = resolve(reference, InstalledModel.names(), Alias.targets())
        row = InstalledModel.find(name)
        if row is None:
            raise ModelNotFound(name=reference, near="")  # another process removed it this moment
        return Installed.from_row(row, self.paths.blobs)

    def _free(self, digest: str) -> bool:
        """Delete a blob that no name stands for any more. The caller holds store.lock."""
        if InstalledModel.uses(digest):
            return False
        blob_path(self.paths.blobs, digest).unlink(missing_ok=True)
        return True

    def _prepare(self) -> None:
        """Create what is missing, and see once that the database has this Blazar's schema."""
        if not self._is_prepared:
            with told_in_words(self.paths.data_dir):
                self.paths.ensure()
                prepare_database(self.paths, self._holds_daemon_lock)
            self._is_prepared = True
        open_database(self.paths.database)


def copy_hashed(blocks: Iterable[bytes], target: BinaryIO, size: int, stage: str, progress: Progress) -> str:
    """Write the blocks, flush them to the disk, and return their sha256 in hex."""
    digest, done = hashlib.sha256(), 0
    progress(stage, 0, size)
    for block in blocks:
        target.write(block)
        digest.update(block)
        done += len(block)
        progress(stage, done, size)
    target.flush()
    os.fsync(target.fileno())
    return digest.hexdigest()


def _blocks(path: Path) -> Iterator[bytes]:
    try:
        with open(path, "rb") as file:
            while block := file.read(BLOCK):
                yield block
    except OSError as error:
        raise ModelFileRefused(path=path, reason=f"it cannot be read ({error.strerror})") from error


def _text_of(path: Path) -> str:
    """File names are bytes; what is no text in them is replaced."""
    return os.fsencode(path).decode(errors="replace")


def _place(partial: Path, blob: Path) -> None:
    """Give a finished file its final name, durably."""
    partial.chmod(0o644)
    partial.replace(blob)
    folder = os.open(blob.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
