"""Where a tool is looked for, and in which order."""

import pytest

from blazar.engines.builds import Builds
from blazar.engines.tools import find_tool
from blazar.errors import EngineToolMissing
from blazar.paths import Paths
from blazar.store.store import Store
from tests.support.tool_stubs import put_build

NAME = "llama-quantize"
NOWHERE = {"PATH": ""}


@pytest.fixture
def paths(tmp_path):
    paths = Paths(tmp_path / "data").ensure()
    Store(paths).list()
    return paths


def program(folder):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / NAME).write_text("#!/bin/sh\n")
    (folder / NAME).chmod(0o755)
    return folder / NAME


def find(paths, **options):
    return find_tool(NAME, Builds(paths).every("llamacpp"), **{"env": NOWHERE, **options})


def test_the_order(paths, tmp_path):
    on_path = program(tmp_path / "bin")
    path = {"PATH": str(tmp_path / "bin")}
    assert (find(paths, env=path).path, find(paths, env=path).origin) == (on_path, "PATH")
    old = program(put_build(paths, "b1", installed_at="2026-01-01T00:00:00Z"))
    new = program(put_build(paths, "b2", installed_at="2026-01-02T00:00:00Z"))
    assert find(paths, env=path).path == new
    put_build(paths, "b1", active=True, installed_at="2026-01-01T00:00:00Z")
    assert (find(paths, env=path).path, find(paths, env=path).origin) == (old, "b1")
    assert find(paths, tag="b2").path == new
    named = program(tmp_path / "own")
    for engine_path in (tmp_path / "own", tmp_path / "own" / "llama-server"):
        tool = find(paths, engine_path=str(engine_path))
        assert (tool.path, tool.origin) == (named, "BLAZAR_ENGINE_PATH")


def test_a_build_without_the_tool_is_passed_over(paths):
    put_build(paths, "b3", active=True)
    other = program(put_build(paths, "b1"))
    assert find(paths).path == other


def test_what_may_not_be_run_is_no_tool(paths):
    program(put_build(paths, "b1", active=True)).chmod(0o644)
    with pytest.raises(EngineToolMissing) as told:
        find(paths)
    assert str(told.value) == ("no installed engine build has llama-quantize; `blazar engine build cpu` makes a build "
                               "with all its tools, and a folder that has it can be named with BLAZAR_ENGINE_PATH")
    with pytest.raises(EngineToolMissing, match="the build b1 has no llama-quantize"):
        find(paths, tag="b1")
