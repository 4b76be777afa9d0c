"""Is everything in the data dir its owner's, and are secrets read by nobody else?"""

import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from shlex import quote
from typing import Any

from blazar.config.document import read
from blazar.config.registry import SETTINGS
from blazar.config.tables.api_keys import HASHED
from blazar.doctor.check import Finding, Surroundings, user_name
from blazar.errors import ConfigRefused

MOST_LOOKED_AT = 20_000
"""Files of the data dir whose owner is looked at."""


def check_permissions(surroundings: Surroundings) -> Finding:
    for found, remedy in (*_secrets(surroundings), *_data(surroundings.located.paths.data_dir)):
        return Finding("permissions", "warn", found, remedy)
    return Finding("permissions", "ok", "all files of the data dir have one owner, and secrets are read by nobody else")


def _secrets(surroundings: Surroundings) -> Iterator[tuple[str, str]]:
    try:
        config = surroundings.config
    except ConfigRefused:
        return
    if _has_secrets(config):
        yield from _readable(surroundings.located.config_file, "has secrets in it")
    if config.tls_key:
        yield from _readable(Path(config.tls_key), "is the key of the certificate")


def _has_secrets(config: Any) -> bool:
    """Secrets that stand in the file itself; of API keys often only hashes do."""
    written = config.as_dict()
    secret = {name for name in SETTINGS if config.origin(name) == "file" and config.redacted(name) != written[name]}
    in_file = len(read(config.path).values.get("keys") or ())  # behind them come those of BLAZAR_KEYS
    return bool(secret - {"keys"}) or any(not entry["key"].startswith(HASHED) for entry in config.keys[:in_file])


def _readable(file: Path, why: str) -> Iterator[tuple[str, str]]:
    if file.exists() and file.stat().st_mode & stat.S_IROTH:
        yield f"everybody may read {file}, which {why}", f"`chmod o-rwx {quote(str(file))}`"


def _data(folder: Path) -> Iterator[tuple[str, str]]:
    if not folder.exists():
        return
    owner = folder.stat().st_uid
    for path in islice(_below(folder), MOST_LOOKED_AT):
        found = path.lstat().st_uid
        if found != owner:
            name = user_name(owner)
            yield (f"{path} belongs to {user_name(found)}, and the data dir to {name}",
                   f"`sudo chown -R {name}: {quote(str(folder))}`, and from then on `sudo -u {name} blazar ...`")
            return
    run = folder / "run"
    if run.exists() and run.stat().st_mode & 0o077:
        yield f"others may look into {run}, where secrets of engines lie", f"`chmod 700 {quote(str(run))}`"


def _below(folder: Path) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise error

    for here, folders, files in os.walk(folder, onerror=refuse):
        for name in (*folders, *files):
            yield Path(here, name)
