"""`Installed`: one model of the store, and the plain forms in which other processes see it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from blazar.store.facts import ModelFacts


@dataclass(frozen=True)
class Installed:
    """A row of the store with the facts of its file."""

    name: str
    digest: str
    """sha256 of the file, 64 hex digits."""
    size: int
    facts: ModelFacts
    source: str
    license: str | None
    parameters: str | None
    template: str | None
    """What replaces the file's own chat template, or None."""
    installed_at: str
    file: Path

    @classmethod
    def from_row(cls, row: Mapping[str, Any], blobs: Path) -> "Installed":
        facts = ModelFacts.from_dict(json.loads(row["facts"]))
        return cls(**{**row, "facts": facts}, file=blob_path(blobs, row["digest"]))

    def to_row(self) -> dict[str, Any]:
        """The columns of the table `installed_model`."""
        return {"name": self.name, "digest": self.digest, "size": self.size, "source": self.source,
                "facts": json.dumps(self.facts.to_dict()), "license": self.license, "parameters": self.parameters,
                "template": self.template, "installed_at": self.installed_at}

    def summary(self) -> dict[str, Any]:
        """What lists and the gateway's snapshot hold."""
        facts = self.facts
        return {"name": self.name, "size": self.size, "digest": self.digest, "modified_at": self.installed_at,
                "architecture": facts.architecture, "family": facts.architecture, "format": "gguf",
                "parameter_count": facts.parameter_count, "parameter_size": facts.parameter_size,
                "quantization": facts.quantization, "context_length": facts.context_length or 0,
                "capabilities": list(facts.capabilities), "embedding_length": facts.embedding_length or 0,
                "pooling": facts.pooling}

    def description(self) -> dict[str, Any]:
        """All that is known of the model."""
        return {**self.summary(), "template": self.template or self.facts.chat_template or "",
                "parameters": self.parameters or "", "license": self.license or "", "source": self.source,
                "model_info": dict(self.facts.model_info)}


def blob_path(blobs: Path, digest: str) -> Path:
    """Where the file of that content lies."""
    return blobs / f"{digest}.gguf"
