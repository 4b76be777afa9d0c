"""Banks on the disk: `sessions/<model>/_auto-<ctx>.json` names the files of one, one for each slot of the engine.

A file holds what its JSON says, or the bank is not one: engines believe what they read, and a damaged file would make
a model talk nonsense.
"""

import contextlib
import json
import logging
import os
import threading
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from blazar.paths import Paths
from blazar.store.name import file_safe
from blazar.supervisor.policies.session_bank import BankView, surplus

log = logging.getLogger(__name__)

LONGEST_INDEX = 1 << 20
PIECE = 1 << 20
TRYING = ".trying"


@dataclass(frozen=True)
class Part:
    """The file of one slot."""

    file: str
    tokens: int
    size: int
    crc: int


@dataclass(frozen=True)
class Bank:
    """Where the slots of a child are kept, and what they are worth: only to a child of the same origin."""

    folder: Path
    name: str
    """Without the context: `_auto`, with a number behind it for further children of a model."""
    model: str
    origin: Mapping[str, Any]
    cache_size: int = 0
    """Bytes of its KV cache when it is full; 0 = not known."""
    keep: float = 0.0
    """Seconds for which it is pinned once it is saved."""
    lock: threading.Lock = field(default_factory=threading.Lock, compare=False)
    """Held while it is written."""

    def index(self, ctx: int) -> Path:
        """The JSON file that makes it a bank, for a child of so many tokens a slot."""
        return self.folder / f"{self.name}-{ctx}.json"


def bank_folder(paths: Paths, model: str) -> Path:
    return paths.sessions / file_safe(model)


def write(index: Path, model: str, origin: Mapping[str, Any], fresh: Mapping[Path, Part], now: float) -> None:
    """Make finished files a bank, in place of the one there was; a kill half way leaves none. Raises OSError."""
    index.unlink(missing_ok=True)
    for file, part in fresh.items():
        file.replace(index.parent / part.file)
    named = {part.file for part in fresh.values()}
    for file in _files_of(index):
        if file.name not in named:
            file.unlink(missing_ok=True)
    entry = {"model": model, "origin": dict(origin), "saved_at": now,
             "parts": [asdict(part) for part in fresh.values()]}
    whole = index.with_suffix(".tmp")
    whole.write_text(json.dumps(entry))
    whole.replace(index)


def read(index: Path) -> dict[str, Any] | None:
    """What `write` wrote, its parts as `Part`; None when there is no such bank, or nobody can make sense of it."""
    try:
        return _meant(index, _text(index))
    except OSError:
        return None


def _text(index: Path) -> bytes:
    with index.open("rb") as file:
        return file.read(LONGEST_INDEX)


def _meant(index: Path, text: bytes) -> dict[str, Any] | None:
    """What the text of a bank says; None for nonsense."""
    try:
        entry = json.loads(text)
        parts = [Part(str(part["file"]), int(part["tokens"]), int(part["size"]), int(part["crc"]))
                 for part in entry["parts"]]
        if any(not _is_ours(index, part.file) for part in parts):
            return None
        return {"model": str(entry["model"]), "origin": dict(entry["origin"]), "saved_at": float(entry["saved_at"]),
                "parts": parts}
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def drop(index: Path) -> None:
    """Delete a bank with its files, or what is left of one."""
    for file in _files_of(index):
        with contextlib.suppress(OSError):
            file.unlink(missing_ok=True)


def begin_trying(index: Path) -> Path:
    """Mark a bank as one that is being given to an engine, so that an engine that dies of it is not given it again."""
    return index.replace(index.with_suffix(TRYING))


def blamed(bank: Bank | None) -> bool:
    """Whether the engine has ended while it was given this bank, which goes then."""
    tried = list(bank.folder.glob(f"{bank.name}-*{TRYING}")) if bank is not None else []
    for mark in tried:
        drop(mark.with_suffix(".json"))
    return bool(tried)


def checksum(file: Path, on_piece: Callable[[], object] = lambda: None) -> int:
    """CRC-32 of a file; `on_piece` is called every MiB, and may raise. Raises OSError."""
    crc = 0
    with file.open("rb", buffering=0) as source:
        while piece := source.read(PIECE):
            crc = zlib.crc32(piece, crc)
            on_piece()
    return crc


def sweep(paths: Paths, digests: Mapping[str, str], keep: float) -> None:
    """Delete the banks of models that are gone or were replaced, by `digests`; then what is beyond the limit of all.
    Raises OSError."""
    for index in paths.sessions.glob("*/*.json"):
        try:
            entry = _meant(index, _text(index))
        except OSError:  # no descriptor is left, say: that makes it no worse
            continue
        if entry is None or digests.get(entry["model"]) != entry["origin"].get("digest"):
            log.info("%s: its saved conversations are of no use any more and go", entry["model"] if entry else index)
            drop(index)
    shrink(paths.sessions, keep)


def shrink(sessions: Path, keep: float) -> None:
    """Delete the banks that are too much for all together; each is pinned for `keep` seconds."""
    found = {str(index): entry for index in sessions.glob("*/*.json") if (entry := read(index))}
    views = [BankView(name, sum(part.size for part in entry["parts"]), entry["saved_at"])
             for name, entry in found.items()]
    for name in surplus(views, time.time(), keep):
        log.info("%s: its saved conversations go, since all together have a limit", found[name]["model"])
        drop(Path(name))


def tidy(paths: Paths) -> None:
    """Once, before any engine runs: delete files that no bank names, and empty folders."""
    for file in paths.sessions.glob("*/_auto*"):
        if file.suffix != ".json" and not _is_named(file):
            with contextlib.suppress(OSError):
                file.unlink()
    for folder in paths.sessions.glob("*"):
        with contextlib.suppress(OSError):
            folder.rmdir()


def free_space(folder: Path) -> int:
    """Bytes that are free on the disk. Raises OSError."""
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def _is_named(file: Path) -> bool:
    entry = read(file.with_name(f"{file.name.partition('.')[0]}.json"))
    return entry is not None and any(part.file == file.name for part in entry["parts"])


def _files_of(index: Path) -> list[Path]:
    return [file for file in index.parent.glob(f"{index.stem}.*") if _is_ours(index, file.name)]


def _is_ours(index: Path, name: str) -> bool:
    return name.startswith(f"{index.stem}.") and "/" not in name
