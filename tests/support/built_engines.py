"""llama.cpp as `make test-engines` builds it, for tests marked `built`."""

import os
from pathlib import Path

import pytest

COLD = "the engine cache is cold; `make test-engines` fills it"


def cache() -> Path:
    """The folder of the cache: `bin/` in it holds the programs, once they are built."""
    if named := os.environ.get("BLAZAR_TEST_ENGINES"):
        return Path(named).absolute()
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "blazar" / "engines" / "b11434"


def built(name: str) -> Path:
    """The program `name`. Skips the test when the cache is cold."""
    program = cache() / "bin" / name
    if not program.exists():
        pytest.skip(COLD)
    return program
