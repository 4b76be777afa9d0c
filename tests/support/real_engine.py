"""The real engine for the tests: this interpreter's own, else that of the checkout's .venv.

Debian has no package of the engine, so the suite with Debian's packages starts the one that `make` installed.
"""

import importlib.util
from pathlib import Path

import pytest

VENV = Path(__file__).parent.parent.parent / ".venv" / "bin"


def engine_path() -> str | None:
    """What BLAZAR_ENGINE_PATH must hold, None for nothing. Skips the test when there is no real engine."""
    program = VENV / "blazar-llama-server"
    if importlib.util.find_spec("xllamacpp") is None and program.exists():
        return str(program)
    pytest.importorskip("xllamacpp")
    return None
