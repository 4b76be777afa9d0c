"""Reading what a Hugging-Face-shaped registry says of a repository. Pure: values in, values out."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from blazar.download.remote import LARGEST
from blazar.store.gguf_types import FILE_TYPES
from blazar.store.splits import MAX_PARTS

MOST_FILES = 20_000
"""Files of a repository that are looked at; more are no model's."""
_MORE_TYPES = ("Q2_K_L", "Q2_K_XL", "Q3_K", "Q3_K_XL", "Q4_K", "Q4_K_L", "Q4_K_XL", "Q5_K", "Q5_K_L", "Q5_K_XL",
               "Q6_K_L", "Q6_K_XL", "Q8_K_XL", "IQ4_NL_XL", "MXFP4", "FP16", "FP32")
_TYPES = "|".join(sorted({*FILE_TYPES.values(), *_MORE_TYPES}, key=len, reverse=True))
_QUANTISATION = re.compile(rf"(?:^|[-._ /])((?:UD-)?(?:{_TYPES}))(?=$|[-._ /])", re.IGNORECASE)
_PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.IGNORECASE)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_COMMIT = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,99}")


@dataclass(frozen=True)
class RemoteFile:
    """One file of a repository."""

    path: str
    size: int
    """Bytes."""
    sha256: str | None = None
    """None for a file that the registry keeps in git itself, where only small ones are."""

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name


@dataclass(frozen=True)
class Build:
    """One build of a model in a repository: one GGUF file, or a set of parts in their order."""

    quantization: str
    """As the file's name has it, or the whole name without `.gguf` when it tells none."""
    files: tuple[RemoteFile, ...]
    parts: int = 1
    """How many files there should be."""

    @property
    def size(self) -> int:
        return sum(file.size for file in self.files)

    @property
    def is_whole(self) -> bool:
        return len(self.files) == self.parts


@dataclass(frozen=True)
class Listing:
    """What a repository holds at one commit."""

    repo: str
    commit: str
    files: tuple[RemoteFile, ...]
    license: str | None = None


def read_listing(repo: str, plain: Mapping[str, Any]) -> Listing:
    """The listing in the registry's answer about a model. Raises ValueError with what is wrong with the answer."""
    siblings = plain.get("siblings")
    if not isinstance(siblings, list):
        raise ValueError("its answer lists no files")
    files = tuple(file for entry in siblings[:MOST_FILES] if (file := _sibling(entry)))
    card = plain.get("cardData")
    license = card.get("license") if isinstance(card, Mapping) else None
    commit = _text(plain.get("sha"))
    return Listing(repo, commit if commit and _COMMIT.fullmatch(commit) else "main", files, _text(license))


def read_tree(plain: Any) -> tuple[RemoteFile, ...]:
    """The files in one page of the registry's answer about a repository's tree."""
    if not isinstance(plain, list):
        raise ValueError("its answer lists no files")
    return tuple(file for entry in plain if isinstance(entry, Mapping) and entry.get("type") == "file"
                 and (file := _sibling({**entry, "rfilename": entry.get("path")})))


def lacks_sizes(plain: Mapping[str, Any]) -> bool:
    """Whether an answer about a model names GGUF files without telling their sizes."""
    return any(isinstance(entry, Mapping) and str(entry.get("rfilename", "")).lower().endswith(".gguf")
               and not isinstance(_lfs(entry).get("size", entry.get("size")), int)
               for entry in plain.get("siblings") or ())


def builds_of(files: Iterable[RemoteFile]) -> list[Build]:
    """The builds that these GGUF files make, the smallest first."""
    sets: dict[tuple[str, int], list[tuple[int, RemoteFile]]] = defaultdict(list)
    builds = []
    for file in files:
        part = part_of(file.path)
        if part:
            stem, number, count = part
            sets[stem, count].append((number, file))
        else:
            builds.append(Build(quantization_of(file.path), (file,)))
    for (_, count), parts in sets.items():
        parts.sort(key=lambda part: part[0])
        builds.append(Build(quantization_of(parts[0][1].path), tuple(file for _, file in parts), count))
    return sorted(builds, key=lambda build: (build.size, build.quantization))


def quantization_of(path: str) -> str:
    """The quantisation that a file's name, or else its folder, tells; its whole name when neither does."""
    name = PurePosixPath(path).name
    part = part_of(name)
    stem = part[0] if part else re.sub(r"\.gguf$", "", name, flags=re.IGNORECASE)
    for text in (stem, str(PurePosixPath(path).parent)):
        found = _QUANTISATION.findall(text)
        if found:
            return found[-1]
    return stem


def part_of(name: str) -> tuple[str, int, int] | None:
    """Stem, number and count of the part of a set that a file's name tells; None when it tells none."""
    part = _PART.fullmatch(name)
    if part is None or not 1 <= int(part["number"]) <= int(part["count"]) <= MAX_PARTS:
        return None
    return part["stem"], int(part["number"]), int(part["count"])


def named(builds: Sequence[Build], wanted: str) -> Build | None:
    """The build that `wanted` means: a quantisation, or the name of one of its files, in upper or lower case."""
    low = wanted.lower()
    for build in builds:
        if build.quantization.lower() == low:
            return build
    for build in builds:
        if any(low in (file.path.lower(), file.name.lower(), file.name.lower().removesuffix(".gguf"))
               for file in build.files):
            return build
    return None


def _sibling(entry: Any) -> RemoteFile | None:
    """One entry of a listing; None for what is no sane file."""
    if not isinstance(entry, Mapping):
        return None
    path, lfs = entry.get("rfilename"), _lfs(entry)
    size = lfs.get("size", entry.get("size"))
    if not isinstance(path, str) or not _is_sane(path) or type(size) is not int or not 0 <= size < LARGEST:
        return None
    digest = str(lfs.get("sha256") or lfs.get("oid") or "").lower().removeprefix("sha256:")
    return RemoteFile(path, size, digest if _SHA256.fullmatch(digest) else None)


def _lfs(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    lfs = entry.get("lfs")
    return lfs if isinstance(lfs, Mapping) else {}


def _is_sane(path: str) -> bool:
    parts = path.split("/")
    return len(path) <= 400 and path.isprintable() and all(part not in ("", ".", "..") for part in parts)


def _text(value: Any) -> str | None:
    """A short text that may be stored and shown: no control characters, no halves of characters."""
    return value[:200] if isinstance(value, str) and value and value.isprintable() else None
