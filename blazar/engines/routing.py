"""Which engine program serves a model: the one that was named, else one on PATH, else the embedded one."""

import importlib.util
import os
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from blazar.engines.lane import Program
from blazar.errors import EngineMissing

LLAMA_SERVER = "llama-server"
EMBEDDED = (sys.executable, "-P", "-m", "blazar.engines.embedded")


def find_program(model: str, engine_path: str | None, env: Mapping[str, str] = os.environ) -> Program:
    """The llama.cpp program to use; `engine_path` is BLAZAR_ENGINE_PATH, a file or a folder that holds llama-server.

    A wrong `engine_path` raises EngineMissing: falling back to another engine would hide the mistake.
    """
    if engine_path:
        return Program("llamacpp", (str(_named(model, engine_path)),), "BLAZAR_ENGINE_PATH")
    on_path = shutil.which(LLAMA_SERVER, path=env.get("PATH"))
    if on_path:
        return Program("llamacpp", (on_path,), "PATH")
    if importlib.util.find_spec("xllamacpp"):
        return Program("llamacpp", EMBEDDED, "embedded")
    raise EngineMissing(model=model, reason="there is no llama-server on PATH, and no embedded engine")


def _named(model: str, engine_path: str) -> Path:
    path = Path(engine_path).expanduser()
    program = path / LLAMA_SERVER if path.is_dir() else path
    if not program.is_file():
        raise EngineMissing(model=model, reason=f"BLAZAR_ENGINE_PATH is {engine_path}, and {program} is not a file")
    if not os.access(program, os.X_OK):
        raise EngineMissing(model=model, reason=f"BLAZAR_ENGINE_PATH is {engine_path}, and {program} is not executable")
    return program.absolute()
