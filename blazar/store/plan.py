"""From what a person asked for to the very files to get: which repository, which build, which companions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from blazar.download.client import shown
from blazar.download.fetch import Source
from blazar.errors import BuildMissing, PullFailed
from blazar.store.catalog import RepoEntry
from blazar.store.companions import companions, models, role_of
from blazar.store.huggingface import Build, Listing, RemoteFile, builds_of, named, part_of, quantization_of
from blazar.store.name import clean
from blazar.store.reference import Address, Repository
from blazar.store.registry import Registry
from blazar.store.splits import part_name

Choose = Callable[[str, Sequence[Build]], tuple[Build, str]]
"""Given a name for people and the builds there are (the smallest first): the build to take, and why, for people.

Raises NothingFits.
"""

SHOWN = 12
"""Builds that an error lists."""


@dataclass(frozen=True)
class Wanted:
    """One file to get."""

    role: str
    """`model`, `part`, `projector` or `draft`."""
    name: str
    """Its file name, for people."""
    source: Source


@dataclass(frozen=True)
class Plan:
    """A model to install."""

    files: tuple[Wanted, ...]
    """The model's first file first."""
    name: str | None
    """What it is to be called, None to name it after the file."""
    fallback: str
    source: str
    """Where it comes from, for people."""
    license: str | None = None
    repo: str = ""
    """The repository of the registry, if it is one's."""
    said: str = ""
    """What a person should be told of the choice that was made."""

    @property
    def size(self) -> int:
        """Bytes in all, as far as they are known."""
        return sum(file.source.size or 0 for file in self.files)


def plan_entry(entry: RepoEntry, build: str, registry: Registry, choose: Choose) -> Plan:
    """The plan for a model of the catalog."""
    return _plan(Repository(entry.repo, build), entry.name, registry, choose)


def plan_repository(reference: Repository, registry: Registry, choose: Choose) -> Plan:
    """The plan for `owner/repo`. Raises what `Registry.listing` raises, BuildMissing, NothingFits or PullFailed."""
    return _plan(reference, reference.repo, registry, choose)


def plan_address(address: Address, registry: Registry) -> Plan:
    """The plan for a GGUF file somewhere; a file that is a part of a set brings the whole set."""
    registry.check_online(address.url)
    urls = _set_of(address.url)
    files = [Wanted("part" if number else "model", Address(url).file, Source(url, token=registry.token_for(url)))
             for number, url in enumerate(urls)]
    stem = files[0].name.rpartition(".")[0]
    label = quantization_of(files[0].name)
    base = clean(stem.partition("-00001-of-")[0])
    return Plan(tuple(files), None, clean(base.removesuffix(label.lower())) or base or "model",
                shown(address.url))


def _plan(reference: Repository, called: str, registry: Registry, choose: Choose) -> Plan:
    listing = registry.listing(reference.repo, reference.revision)
    builds = builds_of(models(listing.files))
    if not builds:
        raise PullFailed(name=called, reason=f"{listing.repo} holds no GGUF file", remedy="choose a repository that "
                         "does; their names mostly end in -GGUF")
    build, said = _asked_for(listing, builds, reference.build) if reference.build else choose(called, builds)
    if not build.is_whole:
        raise PullFailed(name=called, reason=f"{listing.repo} holds {len(build.files)} of the {build.parts} parts of "
                         f"{build.quantization}", remedy="choose another build, or wait until its owner has sent all")
    first = build.files[0]
    files = [Wanted("part" if number else "model", file.name, _source(registry, listing, file))
             for number, file in enumerate(build.files)]
    files += [Wanted(role, file.name, _source(registry, listing, file))
              for role, file in companions(listing.files, first)]
    name = f"{called}:{clean(build.quantization) or 'model'}"
    return Plan(tuple(files), name, name, f"{registry.shown}/{listing.repo}", listing.license, listing.repo,
                said)


def _asked_for(listing: Listing, builds: Sequence[Build], wanted: str) -> tuple[Build, str]:
    """The build that was asked for by name."""
    every = [*builds, *builds_of(file for file in listing.files if role_of(file) == "draft")]
    build = named(every, wanted)
    if build is None:
        labels = [build.quantization for build in builds]
        more = f" and {len(labels) - SHOWN} more" if len(labels) > SHOWN else ""
        raise BuildMissing(repo=listing.repo, wanted=wanted, builds=", ".join(labels[:SHOWN]) + more)
    return build, ""


def _source(registry: Registry, listing: Listing, file: RemoteFile) -> Source:
    url = registry.url(listing, file)
    return Source(url, file.sha256, file.size, registry.token_for(url))


def _set_of(url: str) -> list[str]:
    """The URLs of all parts of the set that `url` is of; itself alone when its name names no set."""
    part = part_of(Address(url).file)
    if part is None:
        return [url]
    stem, _, count = part
    parts = urlsplit(url)
    folder = parts.path.rpartition("/")[0]
    return [parts._replace(path=f"{folder}/{quote(part_name(stem, number, count))}").geturl()
            for number in range(1, count + 1)]
