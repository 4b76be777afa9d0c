"""Reading the small files of /proc and /sys: what cannot be read is unknown."""

from pathlib import Path

LARGEST = 8 << 20
"""Bytes read of one file at most."""


def text(path: Path) -> str | None:
    """What `path` holds, without white space around it; None when it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(LARGEST).decode(errors="replace").strip()
    except OSError:
        return None


def number(path: Path) -> int | None:
    """The decimal number that `path` holds; None for anything else."""
    found = text(path)
    return int(found) if found and found.isascii() and found.isdigit() else None


def entries(folder: Path) -> list[Path] | None:
    """What lies in `folder`, by name; none when it does not exist, None when it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except FileNotFoundError:
        return []
    except OSError:
        return None
