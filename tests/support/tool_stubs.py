"""Stand-ins for an engine's tools, as programs of their own that a build's folder may hold."""

import json
import sys
from pathlib import Path
from typing import Any

from blazar.models.base import open_database
from blazar.models.engine import Engine
from blazar.paths import Paths

STUBS = Path(__file__).parent.parent / "stubs"


def tool(folder: Path, name: str, **scenario: Any) -> Path:
    """Write the program `name` into `folder`: the stub of that name, with its scenario beside it."""
    program = folder / name
    source = (STUBS / f"stub_{name.replace('-', '_')}.py").read_text()
    help_folder = f"{str(STUBS.parent / 'data' / 'help')!r}"
    program.write_text(f"#!{sys.executable}\n" + source.replace(
        'Path(__file__).resolve().parent.parent / "data" / "help"', f"Path({help_folder})"))
    program.chmod(0o755)
    play(program, **scenario)
    return program


def play(program: Path, **scenario: Any) -> None:
    """Give the program another scenario from now on."""
    Path(f"{program}.json").write_text(json.dumps(scenario))


def starts(program: Path) -> list[list[str]]:
    """The command lines with which it was started, without the program."""
    file = Path(f"{program}.starts")
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def put_build(paths: Paths, tag: str, active: bool = False, **more: Any) -> Path:
    """A row for a build whose program need not exist; the build's folder, which does."""
    folder = paths.engines / tag
    folder.mkdir(parents=True, exist_ok=True)
    open_database(paths.database)
    row = {"kind": "llamacpp", "path": f"engines/{tag}/llama-server", "flavour": "cpu", "source": "a test",
           "sha256": None, "installed_at": "2026-01-02T03:04:05Z", "pinned": False, "turn": 0, **more}
    Engine.put(tag=tag, active=False, **row)
    if active:
        Engine.activate(row["kind"], tag)
    return folder
