"""`Program`: an engine program that can be run."""

from dataclasses import dataclass

EMBEDDED_FLAVOUR = "embedded"
"""The flavour of a build that is a Python with xllamacpp; source and tag of the one beside this package too."""
EMBEDDED_MODULE = ("-P", "-m", "blazar.engines.embedded")
"""What a Python that has xllamacpp is told to run."""


@dataclass(frozen=True)
class Program:
    """An engine program that can be run: `argv` is its beginning (a path, or an interpreter and a module)."""

    kind: str
    argv: tuple[str, ...]
    source: str
    """Where it came from, for people: `BLAZAR_ENGINE_PATH`, `PATH`, `embedded`, or the tag of an installed build."""
    tag: str = ""
    """What an `engine` pin calls it: the tag of an installed build, `local`, `path` or `embedded`."""
    picks_port: bool = True
    """Whether it accepts `--port 0`, so that no port has to be chosen for it."""
