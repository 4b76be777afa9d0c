"""Folders like those of another machine: real files, from a table of path to text."""

from collections.abc import Mapping
from pathlib import Path

LINK = "-> "
"""How the text of a symbolic link begins."""


def grow(root: Path, files: Mapping[str, str]) -> Path:
    """Write `files` under `root`, which is returned."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if text.startswith(LINK):
            path.symlink_to(text.removeprefix(LINK))
        else:
            path.write_text(text)
    return root
