"""Configuration files for tests."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from blazar.config.config import Config
from blazar.config.load import load
from blazar.config.registry import declared
from blazar.config.render import literal

ALL_ACTIVE = frozenset(path for path, _ in declared())
"""As if this version acted on every setting."""

COMPLETE = {"name": "n", "key": "k", "url": "https://h", "alias": "a", "model": "m", "path": "/p"}
"""A value for each required field of a table."""


def load_text(text: str | bytes, folder: Path, env: Mapping[str, str] | None = None, **options: Any) -> Config:
    """Load `text` from a file in `folder`; every setting counts as active unless `active` says otherwise."""
    file = folder / "config.toml"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return load(file, env or {}, **{"active": ALL_ACTIVE, **options})


def document(path: str, value: Any, fields: Mapping[str, Any]) -> str:
    """A file in which the setting or field at `path` (`keys[].rpm`) has `value`, and required fields are there."""
    name, _, rest = path.partition(".")
    nested = _nested(rest, value, fields) if rest else value
    if name.endswith("[]"):
        return f"{name[:-2]} = {literal([nested])}\n"
    return f"{name} = {literal(nested)}\n"


def _nested(path: str, value: Any, fields: Mapping[str, Any]) -> dict[str, Any]:
    name, _, rest = path.partition(".")
    inner = _nested(rest, value, fields) if rest else value
    if name.endswith("[]"):
        name, inner = name[:-2], [inner]
    around = {} if name == "<name>" else {key: COMPLETE[key] for key in fields if key != name}
    return {**around, ("m" if name == "<name>" else name): inner}
