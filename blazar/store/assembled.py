"""What an engine is told to open, where blobs alone do not do: links with the names it looks for, and small files.

llama.cpp is given the first part of a split set and finds the others beside it by their names. So each load makes
`run/sets/<model>/` anew, with symbolic links to the blobs; the names in it are ours, or were checked to be plain file
names. Made at each load, it survives that the data dir is moved.
"""

import shutil
from dataclasses import dataclass
from pathlib import Path

from blazar.paths import Paths
from blazar.store.installed import Installed
from blazar.store.locks import told_in_words
from blazar.store.name import file_safe
from blazar.store.pieces import COMPANIONS
from blazar.store.splits import part_name

TEMPLATE = "template.jinja"


@dataclass(frozen=True)
class Assembled:
    """Paths for an engine's command line."""

    file: Path
    """The model's own file; for safetensors the folder."""
    companions: tuple[tuple[str, Path], ...] = ()
    """Role and path of each file that has a flag of its own."""
    template: Path | None = None
    """A Jinja file that replaces the model's own chat template."""


def assemble(paths: Paths, model: Installed) -> Assembled:
    """Make ready what the engine of `model` will open. Raises StoreUnwritable."""
    folder = _folder(paths, model.name)
    parts = [piece for piece in model.pieces if piece.role in ("model", "part")]
    companions = tuple((piece.role, piece.path) for piece in model.pieces if piece.role in COMPANIONS)
    is_folder = model.facts.format != "gguf"
    links = {part_name("model", number, len(parts)): part.path for number, part in enumerate(parts, 1)}
    if is_folder:
        links = {piece.name: piece.path for piece in model.pieces}
    if len(links) == 1 and not model.preset.jinja:
        return Assembled(model.file, companions)
    template = None
    with told_in_words(folder):
        disassemble(paths, model.name)
        folder.mkdir(parents=True)
        if len(links) > 1:
            for name, target in links.items():
                (folder / name).symlink_to(target)
        if model.preset.jinja:
            template = folder / next(name for name in (TEMPLATE, f"own-{TEMPLATE}") if name not in links)
            with open(template, "x", encoding="utf-8") as written:  # never through a link to a blob
                written.write(model.preset.jinja)
    file = folder if is_folder else folder / next(iter(links)) if len(links) > 1 else model.file
    return Assembled(file, companions, template)


def disassemble(paths: Paths, name: str) -> None:
    """Remove what was made for the model `name`."""
    shutil.rmtree(_folder(paths, name), ignore_errors=True)


def _folder(paths: Paths, name: str) -> Path:
    return paths.sets / file_safe(name)
