"""Unpack an archive that a stranger may have made: nothing of it lands outside its folder, or grows without limit.

Links are made last, so that no file can be written through one, and each must stay inside. Of a file's mode only
"may be run" is kept.
"""

import gzip
import os
import stat
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO, Any

from blazar.errors import ArchiveRefused
from blazar.units import format_bytes

BLOCK = 1 << 18
HEADER_BYTES = 1 << 20
"""Bytes that are read at once at most; a tar header that claims more is a bomb."""
LONGEST_TARGET = 4096
LONGEST_NAME, DEEPEST = 1024, 32
"""Bytes of an entry's path, and folders in it."""
LONGEST_PART = 255
UNPACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""Ways of packing a zip that engines come in; the others may ask for gigabytes of memory."""

Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Limits:
    """`members` counts entries, `size` is bytes unpacked; `ratio` is unpacked to packed, beyond the first `free`."""

    members: int = 20_000
    size: int = 16 << 30
    ratio: int = 60
    free: int = 64 << 20

    def most(self, packed: int) -> int:
        """Bytes that an archive of `packed` bytes may become."""
        return min(self.size, max(self.free, self.ratio * packed))


@dataclass(frozen=True)
class Member:
    """One entry: `kind` is file, folder, symlink or hardlink; `content` opens a file, `target` is a link's."""

    name: str
    kind: str
    runs: bool = False
    target: str = ""
    content: Callable[[], IO[bytes]] | None = None


def extract(archive: Path, folder: Path, progress: Progress, limits: Limits = Limits()) -> None:
    """Unpack `archive` into the empty `folder`. Raises ArchiveRefused; the caller then removes the folder."""
    packed = archive.stat().st_size
    unpacking = _Unpacking(archive.name, folder, limits, limits.most(packed), progress)
    members = _zip_members if zipfile.is_zipfile(archive) else _tar_members
    try:
        for member in members(archive, unpacking):
            unpacking.take(member)
        unpacking.make_links()
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError,
            gzip.BadGzipFile, ValueError, LookupError, OverflowError, struct.error) as error:
        raise ArchiveRefused(name=archive.name, reason=f"it is damaged ({error})") from error


class _Unpacking:
    def __init__(self, name: str, folder: Path, limits: Limits, most: int, progress: Progress) -> None:
        self._name = name
        self._folder = folder
        self._limits = limits
        self._most = most
        self._progress = progress
        self._seen: dict[str, str] = {}
        self._links: list[tuple[Path, str]] = []
        self._members = self._bytes = 0

    def refuse(self, reason: str) -> ArchiveRefused:
        return ArchiveRefused(name=self._name, reason=reason)

    def bomb(self) -> ArchiveRefused:
        return self.refuse(f"it unpacks to over {format_bytes(self._most)}")

    @property
    def most(self) -> int:
        return self._most

    def take(self, member: Member) -> None:
        self._members += 1
        if self._members > self._limits.members:
            raise self.refuse(f"it holds over {self._limits.members} entries")
        name = self._inside(member.name)
        if name == ".":
            return
        path = self._folder / name
        if member.kind == "folder":
            self._claim(name, "folder")
            path.mkdir(parents=True, exist_ok=True)
            return
        self._claim(name, member.kind)
        path.parent.mkdir(parents=True, exist_ok=True)
        if member.kind == "file":
            self._write(path, member)
        elif member.kind == "hardlink":
            target = self._inside(member.target)
            if self._seen.get(target) != "file":
                raise self.refuse(f"{name} is a link to {member.target!r}, which is no file before it")
            os.link(self._folder / target, path)
            self._seen[name] = "file"
        else:
            self._links.append((path, member.target))

    def make_links(self) -> None:
        """Make the symbolic links, and see that each ends inside, also by way of others."""
        for path, target in self._links:
            if not target or target.startswith("/") or "\0" in target or len(target) > LONGEST_TARGET:
                raise self.refuse(f"{path.relative_to(self._folder)} is a link to {target[:80]!r}, which leaves it")
            path.symlink_to(target)
        root = os.path.realpath(self._folder)
        for path, target in self._links:
            end = os.path.realpath(path)
            if end != root and not end.startswith(root + os.sep):
                raise self.refuse(f"{path.relative_to(self._folder)} is a link to {target!r}, which leaves it")

    def _inside(self, name: str) -> str:
        """`name` as a plain path below the folder."""
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts or not name or not name.isprintable() or "\\" in name:
            raise self.refuse(f"an entry is called {name[:80]!r}, which is no plain path inside it")
        if len(os.fsencode(name)) > LONGEST_NAME or len(path.parts) > DEEPEST \
                or any(len(os.fsencode(part)) > LONGEST_PART for part in path.parts):
            raise self.refuse(f"an entry is called {name[:80]!r}…, which is too long or too deep")
        return str(path)

    def _claim(self, name: str, kind: str) -> None:
        """Note that `name` is of that kind; its parents must be folders, and only a folder may come twice."""
        for parent in list(PurePosixPath(name).parents)[:-1]:
            if self._seen.setdefault(str(parent), "folder") != "folder":
                raise self.refuse(f"{name} would lie below {parent}, which is no folder")
        if name in self._seen and not self._seen[name] == kind == "folder":
            raise self.refuse(f"it holds {name} twice")
        self._seen[name] = kind

    def _write(self, path: Path, member: Member) -> None:
        assert member.content is not None
        with member.content() as source, open(path, "xb") as file:
            while block := source.read(BLOCK):
                self._bytes += len(block)
                if self._bytes > self._most:
                    raise self.bomb()
                file.write(block)
                self._progress("unpack", self._bytes, None)
            file.flush()
            os.fsync(file.fileno())
        path.chmod(0o755 if member.runs else 0o644)


class _Bounded:
    """The unpacked stream of a tar: no read may be huge, no place beyond the limit may be reached."""

    def __init__(self, stream: Any, unpacking: _Unpacking) -> None:
        self._stream = stream
        self._unpacking = unpacking
        self._most = unpacking.most + HEADER_BYTES

    def read(self, count: int) -> bytes:
        if count > HEADER_BYTES:
            raise self._unpacking.bomb()
        return self._within(self._stream.read(count))

    def seek(self, place: int) -> int:
        if place > self._most:
            raise self._unpacking.bomb()
        return self._stream.seek(place)

    def tell(self) -> int:
        return self._stream.tell()

    def _within(self, data: bytes) -> bytes:
        if self._stream.tell() > self._most:
            raise self._unpacking.bomb()
        return data


def _tar_members(archive: Path, unpacking: _Unpacking) -> Iterator[Member]:
    with gzip.open(archive) as stream:
        bounded: Any = _Bounded(stream, unpacking)
        with tarfile.open(fileobj=bounded, mode="r:") as tar:
            yield from _tar_entries(tar, unpacking)
        while bounded.read(BLOCK):  # up to the checksum at its end
            pass


def _tar_entries(tar: Any, unpacking: _Unpacking) -> Iterator[Member]:
    while (info := tar.next()) is not None:
        tar.members.clear()  # tarfile would keep every one
        if info.isdir():
            yield Member(info.name, "folder")
        elif info.isreg() and not info.issparse():
            yield Member(info.name, "file", bool(info.mode & 0o111), content=partial(_opened, tar, info))
        elif info.issym():
            yield Member(info.name, "symlink", target=info.linkname)
        elif info.islnk():
            yield Member(info.name, "hardlink", target=info.linkname)
        else:
            raise unpacking.refuse(f"{info.name[:80]!r} is neither file, folder nor link")


def _opened(tar: tarfile.TarFile, info: tarfile.TarInfo) -> IO[bytes]:
    stream = tar.extractfile(info)
    if stream is None:
        raise tarfile.ReadError(f"{info.name} cannot be read")
    return stream


def _zip_members(archive: Path, unpacking: _Unpacking) -> Iterator[Member]:
    with zipfile.ZipFile(archive) as found:
        for info in found.infolist():
            mode = info.external_attr >> 16
            if info.compress_type not in UNPACKED:
                raise unpacking.refuse(f"{info.filename[:80]!r} is packed in a way that is not taken")
            if info.header_offset < 0:
                raise zipfile.BadZipFile("an entry lies before its beginning")
            if info.is_dir():
                yield Member(info.filename, "folder")
            elif stat.S_IFMT(mode) in (0, stat.S_IFREG):
                yield Member(info.filename, "file", bool(mode & 0o111), content=partial(found.open, info))
            elif stat.S_ISLNK(mode):
                with found.open(info) as content:
                    target = content.read(LONGEST_TARGET + 1)
                yield Member(info.filename, "symlink", target=os.fsdecode(target))
            else:
                raise unpacking.refuse(f"{info.filename[:80]!r} is neither file, folder nor link")
