"""Pulling in this process from a registry over loopback."""

from collections.abc import Sequence
from typing import Any

from blazar.store.huggingface import Build
from blazar.store.pull import Means, Teller, pull
from blazar.store.registry import Registry as Client
from blazar.store.store import Store
from tests.servers.registry import Registry


class Told(Teller):
    """Keeps what a pull tells."""

    def __init__(self) -> None:
        self.sentences: list[str] = []
        self.files: list[tuple[str, str | None, int | None]] = []
        self.steps: list[tuple[str, int, int | None]] = []

    def says(self, text: str) -> None:
        self.sentences.append(text)

    def begins(self, name: str, sha256: str | None, size: int | None) -> None:
        self.files.append((name, sha256, size))

    def progress(self, stage: str, done: int, total: int | None) -> None:
        self.steps.append((stage, done, total))


def largest(name: str, builds: Sequence[Build]) -> tuple[Build, str]:
    """Every build fits."""
    return builds[-1], f"took the largest of {len(builds)}"


def means(registry: Registry, token: str | None = None, **more: Any) -> Means:
    return Means(**{"choose": largest, "registry": Client(registry.base, token), **more})


def pulled(store: Store, registry: Registry, reference: str, token: str | None = None, **more: Any) -> dict[str, Any]:
    """Pull `reference`; `more` goes to `pull`."""
    return pull(store, reference, means(registry, token), **more)
