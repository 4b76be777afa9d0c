"""`Installed`: one model of the store, and the plain forms in which other processes see it."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from blazar.store import modelfile
from blazar.store.facts import ModelFacts
from blazar.store.pieces import Piece
from blazar.store.preset import NO_PRESET, Preset


@dataclass(frozen=True)
class Installed:
    """A row of the store with the facts of its files."""

    name: str
    pieces: tuple[Piece, ...]
    """Its files in the store, the model's own first."""
    facts: ModelFacts
    source: str
    license: str | None
    installed_at: str
    preset: Preset = NO_PRESET

    @classmethod
    def from_row(cls, row: Mapping[str, Any], blobs: Path) -> "Installed":
        files = json.loads(row["files"] or "null") or [
            {"role": "model", "name": row["name"], "digest": row["digest"], "size": row["size"]}]
        pieces = tuple(Piece(file["role"], blob_path(blobs, file["digest"]), file["digest"], file["size"], file["name"])
                       for file in files)
        return cls(row["name"], pieces, ModelFacts.from_dict(json.loads(row["facts"])), row["source"], row["license"],
                   row["installed_at"], Preset.from_row(row))

    def to_row(self) -> dict[str, Any]:
        """The columns of the table `installed_model`."""
        files = [{"role": piece.role, "name": piece.name, "digest": piece.sha256, "size": piece.size}
                 for piece in self.pieces]
        return {"name": self.name, "digest": self.pieces[0].sha256, "size": self.size, "source": self.source,
                "facts": json.dumps(self.facts.to_dict()), "license": self.license, "files": json.dumps(files),
                "installed_at": self.installed_at, **self.preset.to_row()}

    @property
    def file(self) -> Path:
        """The model's own file."""
        return self.pieces[0].path

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(piece.size for piece in self.pieces)

    @cached_property
    def digest(self) -> str:
        """What tells this model from another, 64 hex digits: the sha256 of its file, or of the list of its files and
        of what was given with it, where there is more than the one file."""
        if len(self.pieces) == 1 and not self.preset:
            return self.pieces[0].sha256
        whole = [[[piece.role, piece.name if piece.role == "config" else "", piece.sha256] for piece in self.pieces],
                 self.preset.to_row()]
        return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()

    def summary(self) -> dict[str, Any]:
        """What lists and the gateway's snapshot hold; `defaults`, if there are any, are added to requests."""
        facts = self.facts
        defaults = self.preset.defaults()
        return {"name": self.name, "size": self.size, "digest": self.digest, "modified_at": self.installed_at,
                "architecture": facts.architecture, "family": facts.architecture, "format": facts.format,
                "parameter_count": facts.parameter_count, "parameter_size": facts.parameter_size,
                "quantization": facts.quantization, "context_length": facts.context_length or 0,
                "capabilities": list(facts.capabilities), "embedding_length": facts.embedding_length or 0,
                "pooling": facts.pooling, **({"defaults": defaults} if defaults else {})}

    def description(self) -> dict[str, Any]:
        """All that is known of the model."""
        preset = self.preset
        return {**self.summary(), "template": preset.template or self.facts.chat_template or "",
                "parameters": "\n".join(preset.lines()), "system": preset.system, "messages": list(preset.messages),
                "license": self.license or "", "source": self.source, "model_info": dict(self.facts.model_info),
                "modelfile": modelfile.render(self.name, preset, self.license),
                "files": [{"role": piece.role, "name": piece.name, "digest": piece.sha256, "size": piece.size}
                          for piece in self.pieces]}


def blob_path(blobs: Path, digest: str) -> Path:
    """Where the file of that content lies. Every one has the same ending, so that the digest alone tells the path."""
    return blobs / f"{digest}.gguf"
