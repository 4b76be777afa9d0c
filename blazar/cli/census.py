"""`--census FILE`: this machine's census saved, or another machine's in place of it."""

import json
import os
from pathlib import Path

from blazar.cli.output import Output
from blazar.errors import CensusRefused
from blazar.hardware.census import Census, census, read_census


def census_of(file: str | None, out: Output, save: bool = False) -> Census:
    """The census in `file`; that of this machine without one, and where `save` says that a new file may be written.

    Raises CensusRefused.
    """
    if file is None:
        return census()
    path = Path(file)
    if not save or path.exists():
        out.note(f"this is about the machine of {path}, not this one")
        return read_census(path)
    found = census()
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_text(json.dumps(found.to_dict(), indent=1) + "\n")
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise CensusRefused(f"cannot write {path}: {error.strerror}") from error
    out.note(f"saved the census of this machine in {path}")
    return found
