"""`Piece`: one file of a model, and what the files of a model say together."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from blazar.errors import ModelFileRefused
from blazar.store.facts import ModelFacts, capabilities_of, facts_of, why_not
from blazar.store.gguf import Header, read_header
from blazar.store.safetensors import read_folder
from blazar.store.splits import read_parts

ROLES = ("model", "part", "config", "projector", "draft", "adapter")
"""`model` is the file that an engine is told, and stands first; a `part` holds more of its weights; a `config` file
belongs to a safetensors model; the rest are companions: files with a flag of their own."""
COMPANIONS = ("projector", "draft", "adapter")
MAX_PIECES = 2048


@dataclass(frozen=True)
class Piece:
    """One file of a model."""

    role: str
    path: Path
    """Where the finished file lies, on the blobs' file system."""
    sha256: str
    size: int
    name: str
    """Its file name, for people; for safetensors also the name under which engines look for it."""


def facts_of_pieces(pieces: Sequence[Piece]) -> ModelFacts:
    """What the files say, after checking that they make one model. Raises ModelFileRefused."""
    if not pieces or pieces[0].role != "model" or any(piece.role == "model" for piece in pieces[1:]):
        raise ModelFileRefused("a model needs one file of its own, which comes first")
    if len(pieces) > MAX_PIECES:
        raise ModelFileRefused(f"a model of {len(pieces)} files is more than the {MAX_PIECES} that are allowed")
    if any(piece.role == "config" for piece in pieces):
        return read_folder(_by_name(pieces))
    weights = [piece for piece in pieces if piece.role in ("model", "part")]
    header = read_parts([piece.path for piece in weights], [piece.name for piece in weights])
    reason = why_not(header)
    if reason:
        raise ModelFileRefused(path=pieces[0].name, reason=reason)
    facts = facts_of(header)
    more = [_companion(piece, facts) for piece in pieces if piece.role in COMPANIONS]
    seen = dict.fromkeys([*facts.capabilities, *(one for found in more for one in found)])
    return replace(facts, size=sum(piece.size for piece in pieces), capabilities=tuple(seen))


def with_template(facts: ModelFacts, template: str) -> ModelFacts:
    """The facts of a model whose chat template is replaced: what it can do is read off its template."""
    able = capabilities_of(facts.architecture, facts.model_info, template)
    of_text = ("completion", "embedding", "rerank", "tools", "thinking")
    kept = tuple(one for one in facts.capabilities if one not in of_text and one not in able)
    return replace(facts, capabilities=(*able, *kept))


def role_of(header: Header) -> str:
    """What a GGUF file is for, by what it says of itself."""
    kind = header.metadata.get("general.type", "model")
    if kind == "adapter":
        return "adapter"
    return "projector" if kind == "mmproj" or header.metadata.get("general.architecture") == "clip" else "model"


def _companion(piece: Piece, facts: ModelFacts) -> tuple[str, ...]:
    """Check a file that stands beside the model; what it adds to what the model can do."""
    header = read_header(piece.path)
    found = role_of(header)
    if piece.role == "draft":
        return ()
    if found != piece.role:
        raise ModelFileRefused(path=piece.name, reason=f"it was given as {_article(piece.role)}, and is "
                                                       f"{_article(found)}")
    if found == "adapter":
        trained = header.metadata.get("general.architecture")
        if trained != facts.architecture:
            raise ModelFileRefused(path=piece.name, reason=f"it is an adapter for {trained}, and the model is a "
                                                           f"{facts.architecture}")
        return ()
    return senses_of(header)


def senses_of(header: Header) -> tuple[str, ...]:
    """What a projector lets a model take in: `vision`, `audio`."""
    hears, sees = (header.metadata.get(f"clip.has_{sense}_encoder") for sense in ("audio", "vision"))
    return (*(("vision",) if sees or not hears else ()), *(("audio",) if hears else ()))


def _by_name(pieces: Sequence[Piece]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for piece in pieces:
        if piece.role not in ("model", "part", "config"):
            raise ModelFileRefused(path=piece.name, reason="companions of safetensors models are not supported")
        if piece.name in found or not piece.name or "/" in piece.name or piece.name in (".", ".."):
            raise ModelFileRefused(f"{piece.name[:80]!r} is not a file name of its own in a safetensors model")
        found[piece.name] = piece.path
    return found


def _article(role: str) -> str:
    return f"{'an' if role[0] in 'aeiou' else 'a'} {role}"
