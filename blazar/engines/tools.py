"""Where the tools that come with an engine build are: llama-quantize, llama-bench and the like."""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from blazar.engines.builds import Build
from blazar.engines.program import EMBEDDED_FLAVOUR, Program
from blazar.errors import EngineToolMissing


@dataclass(frozen=True)
class Tool:
    """A program that can be run."""

    path: Path
    origin: str
    """The tag of its build, or `BLAZAR_ENGINE_PATH` or `PATH`."""


def find_tool(name: str, builds: Sequence[Build], engine_path: str | None = None, tag: str | None = None,
              env: Mapping[str, str] = os.environ) -> Tool:
    """The tool `name` of the build `tag`; without a tag that of the first that has it.

    The order is BLAZAR_ENGINE_PATH (`engine_path`), the build in use, the other builds from the newest on, PATH.
    Raises EngineToolMissing.
    """
    found = next((tool for tool in _places(name, builds, engine_path, tag) if os.access(tool.path, os.X_OK)), None)
    if found:
        return found
    on_path = None if tag else shutil.which(name, path=env.get("PATH"))
    if on_path:
        return Tool(Path(on_path), "PATH")
    where = f"the build {tag} has no {name}" if tag else f"no installed engine build has {name}"
    raise EngineToolMissing(where=where)


def tool_beside(program: Program, name: str) -> Tool | None:
    """The tool `name` that came with an engine program; None when there is none."""
    path = Path(program.argv[0]).with_name(name)
    has = program.source != EMBEDDED_FLAVOUR and path.is_file() and os.access(path, os.X_OK)
    return Tool(path, program.tag or program.source) if has else None


def _places(name: str, builds: Sequence[Build], engine_path: str | None, tag: str | None) -> list[Tool]:
    """Where it may be, first choice first."""
    ordered = sorted(builds, key=lambda build: (build.active, build.installed_at), reverse=True)
    places = [Tool(build.path.parent / name, build.tag) for build in ordered if tag in (None, build.tag)]
    if engine_path and tag is None:
        named = Path(engine_path).expanduser().absolute()
        places.insert(0, Tool((named if named.is_dir() else named.parent) / name, "BLAZAR_ENGINE_PATH"))
    return [tool for tool in places if tool.path.is_file()]
