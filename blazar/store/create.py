"""`create`: a new model out of an installed one, or out of files, with a preset of its own."""

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from blazar.errors import BlazarError, BlobMissing, ModelFileRefused, ModelfileRefused, ModelNotFound
from blazar.paths import Paths
from blazar.store.gguf import read_header
from blazar.store.go_template import to_jinja
from blazar.store.name import parse
from blazar.store.pieces import COMPANIONS, MAX_PIECES, Piece, role_of
from blazar.store.preset import NO_PRESET, Preset, is_go_template
from blazar.store.resolve import resolve
from blazar.store.safetensors import CONFIG, ENDING
from blazar.store.store import Store
from blazar.store.uploads import read_digest, sent

MAX_FILE_NAME = 255
"""Bytes."""
MAX_TEXT = 1 << 18
"""Characters of a template, and of all license texts."""

MADE_FROM = "created from "
"""How the source of a model begins that was made of an installed one."""

GO_IGNORED = ("TEMPLATE is a Go template that is too involved to be translated for the engine: it is kept for `blazar "
              "show`, and the chat template in the model's own file is used; give a Jinja template to replace that")
GO_REFUSED = ("TEMPLATE is a Go template that is too involved to be translated for the engine, and the model's file "
              "has no chat template of its own that could stand in; write it as a Jinja template, such as the "
              "publisher's chat_template.jinja")


@dataclass(frozen=True)
class Recipe:
    """What to make. Either `source`, the name of an installed model, or `pieces`, the model's own files."""

    name: str
    source: str | None = None
    pieces: Sequence[Piece] = ()
    adapters: Sequence[Piece] = ()
    preset: Preset = NO_PRESET
    license: str = ""


def create(store: Store, recipe: Recipe) -> tuple[dict[str, Any], list[str]]:
    """Make the model; its summary as `Store.adopt_pieces` gives it, and what a person should be warned of.

    Raises NameRefused, ModelNotFound, ModelFileRefused, ModelfileRefused and what the disk refuses; then nothing has
    changed.
    """
    parse(recipe.name)
    _check_texts(recipe)
    if bool(recipe.source) == bool(recipe.pieces):
        raise ModelfileRefused("a model is made of `from`, an installed model, or of `files`; give one of the two")
    if recipe.source:
        base = store.get(recipe.source)
        pieces, preset = list(base.pieces), recipe.preset.over(base.preset)
        license, source = recipe.license or base.license, f"{MADE_FROM}{base.name}"
    else:
        pieces, preset = list(recipe.pieces), recipe.preset
        license, source = recipe.license or None, "files that were sent"
    if recipe.adapters:
        pieces = [piece for piece in pieces if piece.role != "adapter"]
        pieces += [replace(piece, role="adapter") for piece in recipe.adapters]
    warnings = _check_template(recipe.preset.template, pieces)
    before = _made_before(store, recipe.name)
    summary = store.adopt_pieces(pieces, recipe.name, recipe.name, source, license, preset)
    if before not in (None, summary["name"]):
        with contextlib.suppress(ModelNotFound):  # somebody else has removed it meanwhile
            store.remove(before)
    return summary, warnings


def _made_before(store: Store, name: str) -> str | None:
    """The made model that `name` has meant so far, if it says no variant: made anew of another quantisation it would
    get another variant, and both would be in each other's way."""
    if not parse(name).is_implied:
        return None
    try:
        found = store.find(resolve(name, store.snapshot_models(), {}))
    except BlazarError:
        return None
    return found.name if found.source.startswith(MADE_FROM) else None


def sent_pieces(paths: Paths, files: Mapping[str, Any]) -> list[Piece]:
    """The files of a model that clients have sent, `files` being digests by file name, in the order a model has them.

    Raises DigestRefused, BlobMissing and ModelFileRefused.
    """
    if len(files) > MAX_PIECES:
        raise ModelFileRefused(f"a model of {len(files)} files is more than the {MAX_PIECES} that are allowed")
    found = [_sent_piece(paths, name, read_digest(digest)) for name, digest in files.items()]
    if CONFIG in files or any(name.endswith(ENDING) for name in files):
        roles = {piece.name: "part" if piece.name.endswith(ENDING) else "config" for piece in found}
        first = min((piece.name for piece in found if roles[piece.name] == "part"), default="")
        roles[first] = "model"
        return _ordered([replace(piece, role=roles[piece.name]) for piece in found])
    if len({piece.sha256 for piece in found}) < len(found):
        raise ModelFileRefused("two of the files are the same one; name each file once")
    numbered = []
    for piece in found:
        header = read_header(piece.path)
        number = header.metadata.get("split.no", 0)
        role = role_of(header)
        is_part = role == "model" and isinstance(number, int) and number > 0
        numbered.append((number if is_part else 0, replace(piece, role="part" if is_part else role)))
    return _ordered([piece for _, piece in sorted(numbered, key=lambda pair: pair[0])])


def _ordered(pieces: list[Piece]) -> list[Piece]:
    order = ("model", "part", "config", *COMPANIONS)
    return sorted(pieces, key=lambda piece: order.index(piece.role))


def _sent_piece(paths: Paths, name: str, digest: str) -> Piece:
    is_long = len(name.encode(errors="replace")) > MAX_FILE_NAME
    if not name or is_long or "/" in name or "\\" in name or name in (".", "..") \
            or any(ord(letter) < 32 for letter in name):
        raise ModelFileRefused(f"{name[:60]!r} is not a plain file name; give names without folders")
    file = sent(paths, digest)
    try:
        size = None if file is None else file.stat().st_size
    except FileNotFoundError:  # removed this moment, with the model it was of
        size = None
    if file is None or size is None:
        raise BlobMissing(name=name, digest=digest)
    return Piece("model", file, digest, size, name)


def _check_texts(recipe: Recipe) -> None:
    for word, text in (("TEMPLATE", recipe.preset.template), ("LICENSE", recipe.license)):
        if len(text) > MAX_TEXT:
            raise ModelfileRefused(f"{word} has {len(text)} characters, {MAX_TEXT} are allowed")


def _check_template(template: str, pieces: Sequence[Piece]) -> list[str]:
    if not is_go_template(template) or to_jinja(template) is not None:
        return []
    if not any(piece.role == "config" for piece in pieces):
        own = read_header(pieces[0].path).metadata.get("tokenizer.chat_template")
        if not str(own or "").strip():
            raise ModelfileRefused(GO_REFUSED)
    return [GO_IGNORED]
