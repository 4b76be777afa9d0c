"""What a path of this machine holds: a GGUF file, a split set, or a folder of safetensors."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from blazar.errors import ModelFileRefused
from blazar.store.facts import ModelFacts, facts_of, read_facts, why_not
from blazar.store.gguf import read_header
from blazar.store.pieces import COMPANIONS, role_of
from blazar.store.safetensors import ENDING, members, read_folder
from blazar.store.splits import neighbours, read_parts, stem_of


@dataclass(frozen=True)
class LocalFile:
    """One file of a model that is not in the store yet."""

    role: str
    path: Path
    size: int


@dataclass(frozen=True)
class LocalModel:
    """A model of this machine; its own file stands first."""

    files: tuple[LocalFile, ...]
    facts: ModelFacts
    titled: Path
    """What to name the model after when it has no title."""


def local_model(path: Path) -> LocalModel:
    """The model at `path`; nothing but headers is read. Raises ModelFileRefused."""
    if path.is_dir():
        return _folder(path)
    if path.name.endswith(ENDING):
        raise ModelFileRefused(f"{path} is one file of a safetensors model; name its folder, which holds {path.name} "
                               f"beside config.json")
    parts = neighbours(path)
    if len(parts) == 1:
        facts = read_facts(path)
        return LocalModel((LocalFile("model", path, facts.size),), facts, path)
    header = read_parts(parts)
    reason = why_not(header)
    if reason:
        raise ModelFileRefused(path=path, reason=reason)
    files = (LocalFile("part" if number else "model", part, part.stat().st_size) for number, part in enumerate(parts))
    return LocalModel(tuple(files), facts_of(header), path.with_name(f"{stem_of(path.name)}.gguf"))


def local_files(paths: Sequence[Path]) -> list[LocalFile]:
    """The files of a model that is named by several paths: its own, and those of its companions.

    Raises ModelFileRefused.
    """
    found: list[LocalFile] = []
    for path in paths:
        parts = [] if path.is_dir() or path.name.endswith(ENDING) else neighbours(path)
        role = role_of(read_header(path)) if len(parts) == 1 else "model"
        found += local_model(path).files if role == "model" else [LocalFile(role, path, path.stat().st_size)]
    return sorted(found, key=lambda file: file.role in COMPANIONS)


def _folder(path: Path) -> LocalModel:
    files = members(path)
    facts = read_folder({file.name: file for file in files})
    roles = (("part" if number else "model") if file.name.endswith(ENDING) else "config"
             for number, file in enumerate(files))
    listed = tuple(LocalFile(role, file, file.stat().st_size) for role, file in zip(roles, files, strict=True))
    return LocalModel(listed, facts, Path(f"{path.resolve()}.model"))
