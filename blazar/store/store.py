"""`Store`: the models of one data dir: files by content in `models/blobs/`, and an index row for each name."""

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from blazar.errors import ModelFileRefused, ModelfileRefused, ModelNotFound, NameTaken, StoreUnwritable
from blazar.models.alias import Alias
from blazar.models.base import open_database
from blazar.models.installed_model import InstalledModel
from blazar.paths import Paths, flush_folder
from blazar.store import speccache
from blazar.store.assembled import disassemble
from blazar.store.copying import BLOCK, Progress, copied, copy_hashed, silent, text_of
from blazar.store.downloads import collect, download_folder
from blazar.store.installed import Installed, blob_path
from blazar.store.local import local_model
from blazar.store.locks import locked, told_in_words
from blazar.store.name import clean, parse
from blazar.store.naming import default_name, full_name
from blazar.store.pieces import Piece, facts_of_pieces, with_template
from blazar.store.preset import NO_PRESET, Preset
from blazar.store.resolve import is_alias, resolve
from blazar.store.schema import prepare_database
from blazar.store.uploads import forget_old_uploads, is_digest
from blazar.store.workspace import Waiting, sweep, workspace
from blazar.units import format_bytes, timestamp

__all__ = ["BLOCK", "Piece", "Progress", "Store", "copy_hashed", "silent"]

MAX_PRESET, MAX_PRESETS = 1 << 17, 2 << 20
"""Characters of system text, messages and parameters: of one model, and of all."""

Summary = dict[str, Any]


class Store:
    """Used by the daemon and by local verbs alike; store.lock is held only for each rename and transaction."""

    def __init__(self, paths: Paths, holds_daemon_lock: bool = False) -> None:
        """`holds_daemon_lock` says that the caller is the daemon, who may bring an older database up to date."""
        self.paths = paths
        self._holds_daemon_lock = holds_daemon_lock
        self._is_prepared = False

    # -- looking ---------------------------------------------------------------------------------------------

    def every(self) -> Iterator[Installed]:
        """All installed models, by name."""
        self._prepare()
        return (Installed.from_row(row, self.paths.blobs) for row in InstalledModel.every())

    def list(self) -> list[Summary]:
        """A summary of each model, by name."""
        return [model.summary() for model in self.every()]

    def snapshot_models(self) -> dict[str, Summary]:
        """Summaries by name, as the gateway's snapshot holds them."""
        return {model.name: model.summary() for model in self.every()}

    def aliases(self) -> dict[str, str]:
        """Canonical names by alias."""
        self._prepare()
        return Alias.targets()

    def get(self, name: str) -> Installed:
        """The model that the reference `name` means, with its files in place.

        Raises NameRefused, ModelNotFound, ModelAmbiguous, or ModelFileRefused when a file is gone.
        """
        model = self.find(name)
        for piece in model.pieces:
            if self.blob(piece.sha256, piece.size) is None:
                raise ModelFileRefused(path=piece.path, reason=f"the store's file of {model.name} is gone or was "
                                                               f"changed; pull the model again")
        return model

    def find(self, reference: str) -> Installed:
        """As `get`, whether or not the files are in place."""
        self._prepare()
        name = resolve(reference, InstalledModel.names(), Alias.targets())
        row = InstalledModel.find(name)
        if row is None:
            raise ModelNotFound(name=reference, near="")  # another process removed it this moment
        return Installed.from_row(row, self.paths.blobs)

    def describe(self, name: str) -> Summary:
        """All that is known of the model that the reference `name` means, as plain values."""
        model = self.find(name)
        aliases = [alias for alias, target in Alias.targets().items() if target == model.name]
        return {**model.description(), "aliases": aliases}

    def blob(self, digest: str, size: int) -> Path | None:
        """The file of that content, when it is here already."""
        file = blob_path(self.paths.blobs, digest)
        return file if file.is_file() and file.stat().st_size == size else None

    # -- changing --------------------------------------------------------------------------------------------

    def install_file(self, path: Path, name: str | None = None, source: str | None = None,
                     progress: Progress = silent) -> Summary:
        """Copy the model at `path` into the store; its summary, and whether anything `changed`.

        That is a GGUF file, any file of a split set, or a folder of safetensors. Without a name the model is named
        after its title, or after the file; the variant is its quantisation.
        """
        found = local_model(path)
        if name is not None:
            full_name(name, found.facts)
        with self.workspace(found.facts.size) as folder:
            pieces = copied(found.files, folder, progress)
            return self.adopt_pieces(pieces, name, default_name(found.facts, found.titled),
                                     source or f"file {text_of(path.absolute())}")

    def adopt(self, partial: Path, digest: str, name: str | None, fallback: str, source: str,
              license: str | None = None) -> Summary:
        """As `adopt_pieces`, for a model of one GGUF file."""
        piece = Piece("model", partial, digest, partial.stat().st_size, f"{clean(fallback) or 'model'}.gguf")
        return self.adopt_pieces([piece], name, fallback, source, license)

    def adopt_pieces(self, pieces: Sequence[Piece], name: str | None, fallback: str, source: str,
                     license: str | None = None, preset: Preset = NO_PRESET) -> Summary:
        """Make finished files a model, all of them or none; its answer is that of `install_file`.

        The files lie in a workspace, or are blobs already. With a `name` a model of that name is replaced; the
        `fallback` name is taken only if it is free.
        """
        self._prepare()
        facts = facts_of_pieces(pieces)
        facts = with_template(facts, preset.jinja) if preset.jinja else facts
        kept = tuple(replace(piece, path=blob_path(self.paths.blobs, piece.sha256)) for piece in pieces)
        model = Installed(full_name(name or fallback, facts), kept, facts, source, license or facts.license,
                          timestamp(), preset)
        with told_in_words(self.paths.blobs), locked(self.paths.store_lock):
            row = InstalledModel.find(model.name)
            old = Installed.from_row(row, self.paths.blobs) if row else None
            is_same = old is not None and old.digest == model.digest
            if old is not None and not is_same and name is None:
                raise NameTaken(name=model.name)
            is_here = all(self.blob(piece.sha256, piece.size) is not None for piece in pieces)
            if old is not None and is_same and is_here:
                return {**old.summary(), "changed": False}
            self._check_presets(model)
            self._record(model, pieces, name)
            if old is not None:
                self._free(old.pieces)
        return {**model.summary(), "changed": True}

    def copy(self, source: str, name: str) -> Summary:
        """Another name over the same files, with the same preset; a model of that name is replaced."""
        model = self.get(source)
        wanted = parse(name)
        variant = wanted.variant or parse(model.name).variant
        target = replace(model, name=str(parse(f"{wanted.model}:{variant}")), installed_at=timestamp())
        with told_in_words(self.paths.blobs), locked(self.paths.store_lock):
            row = InstalledModel.find(target.name)
            old = Installed.from_row(row, self.paths.blobs) if row else None
            if old is not None and old.digest == target.digest:
                return {**old.summary(), "changed": False}
            self._check_presets(target)
            self._record(target, target.pieces, name)
            if old is not None:
                self._free(old.pieces)
        return {**target.summary(), "changed": True}

    def alias(self, source: str, name: str) -> Summary:
        """Another name for the same model, which shares its engine. It may not hide an installed model."""
        self._prepare()
        alias = str(parse(name))
        with told_in_words(self.paths.blobs), locked(self.paths.store_lock):
            model = self.find(source)
            hidden = [name for name in InstalledModel.names() if alias in (name, name.partition(":")[0])]
            if hidden and (alias in hidden or model.name not in hidden):
                raise NameTaken(f"{alias} means the installed model {hidden[0]}, which an alias may not hide; choose "
                                f"another name, or `blazar rm {hidden[0]}` first")
            changed = Alias.targets().get(alias) != model.name
            Alias.put(alias, model.name)
        return {**model.summary(), "changed": changed}

    def remove(self, name: str) -> Summary:
        """Remove the model that the reference `name` means; its summary, with the bytes `freed`.

        Of an alias only the alias goes, and the model `stays`.
        """
        self._prepare()
        with told_in_words(self.paths.blobs), locked(self.paths.store_lock):
            model = self.find(name)
            if is_alias(name, InstalledModel.names(), Alias.targets()):
                Alias.forget(str(parse(name)))
                return {**model.summary(), "freed": 0, "stays": True}
            InstalledModel.uninstall(model.name)
            freed = self._free(model.pieces)
            disassemble(self.paths, model.name)
            speccache.forget(self.paths, model.name)
        return {**model.summary(), "freed": freed, "stays": False}

    def tidy(self) -> None:
        """Once, by a daemon that begins: delete what a killed process left behind, and downloads long given up."""
        self._prepare()
        with told_in_words(self.paths.blobs), locked(self.paths.store_lock):
            for file in self.paths.blobs.glob("*.gguf"):
                if is_digest(file.stem) and not InstalledModel.uses(file.stem):
                    file.unlink(missing_ok=True)
            sweep(self.paths.incoming)
            collect(self.paths)
            forget_old_uploads(self.paths)

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

    @contextlib.contextmanager
    def download(self, what: str, waiting: Waiting) -> Iterator[Path]:
        """The folder in which the download `what` goes on where it was left; see `downloads.py`."""
        self._prepare()
        with download_folder(self.paths, what, waiting) as folder:
            yield folder

    # -- inside ----------------------------------------------------------------------------------------------

    def _record(self, model: Installed, pieces: Sequence[Piece], asked: str | None) -> None:
        """Put `pieces` in place as those of `model` and write its row; what fails undoes both.

        Aliases that would hide the name that was `asked` for go. The caller holds store.lock.
        """
        placed: list[tuple[Path, Path]] = []
        try:
            for piece, kept in zip(pieces, model.pieces, strict=True):
                if self.blob(kept.sha256, kept.size) is None:
                    if not piece.path.exists():
                        raise ModelFileRefused(path=piece.name, reason="it was removed while this was done; try again")
                    _place(piece.path, kept.path)
                    placed.append((kept.path, piece.path))
            speccache.forget(self.paths, model.name)  # it may be of other tokens
            InstalledModel.install({model.name, str(parse(asked))} if asked else {model.name}, **model.to_row())
        except BaseException:
            for blob, before in placed:
                with contextlib.suppress(OSError):
                    blob.rename(before)
            raise

    def _check_presets(self, model: Installed) -> None:
        """The gateway is told all presets at once, so all of them together have a limit."""
        row = model.preset.to_row()
        size = sum(len(row[part] or "") for part in ("system", "messages", "parameters"))
        if size > MAX_PRESET or size + InstalledModel.preset_size(model.name) > MAX_PRESETS:
            raise ModelfileRefused(f"system text, messages and parameters of {model.name} have {size} characters; one "
                                   f"model may have {MAX_PRESET} and all together {MAX_PRESETS}; shorten them")

    def _free(self, pieces: Sequence[Piece]) -> int:
        """Delete the blobs that no name stands for any more; the bytes freed. The caller holds store.lock."""
        freed = 0
        for digest, size in {piece.sha256: piece.size for piece in pieces}.items():
            if not InstalledModel.uses(digest):
                blob_path(self.paths.blobs, digest).unlink(missing_ok=True)
                freed += size
        return freed

    def _prepare(self) -> None:
        """Create what is missing, and see once that the database has this Blazar's schema."""
        if not self._is_prepared:
            with told_in_words(self.paths.data_dir):
                self.paths.ensure()
                prepare_database(self.paths, self._holds_daemon_lock)
            self._is_prepared = True
        open_database(self.paths.database)


def _place(partial: Path, blob: Path) -> None:
    """Give a finished file its final name, durably."""
    partial.chmod(0o644)
    partial.replace(blob)
    flush_folder(blob.parent)
