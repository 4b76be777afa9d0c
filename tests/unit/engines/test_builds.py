"""The builds of a data dir: rows and where their programs lie."""

import pytest

from blazar.engines.builds import Build, Builds, uses_cards
from blazar.engines.program import Program
from blazar.errors import BuildNotFound
from blazar.models.base import close_database
from blazar.models.engine import Engine
from blazar.paths import Paths
from blazar.store.store import Store

ROW = {"kind": "llamacpp", "tag": "b1", "path": "engines/b1/llama-server", "flavour": "cpu", "source": "a release",
       "sha256": "e" * 64, "installed_at": "2026-01-02T03:04:05Z", "active": False, "pinned": False, "turn": 0}


@pytest.fixture(autouse=True)
def closed():
    yield
    close_database()


@pytest.fixture
def paths(tmp_path):
    """A data dir with a database."""
    paths = Paths(tmp_path / "data")
    Store(paths).list()
    return paths


def test_looking_at_a_data_dir_that_is_not_there_makes_nothing(tmp_path):
    builds = Builds(Paths(tmp_path / "none"))
    assert builds.every() == [] and builds.in_use("llamacpp") is None
    with pytest.raises(BuildNotFound, match="there is no engine build 'b1' here, none is installed; "):
        builds.find("b1")
    assert not (tmp_path / "none").exists()


def test_paths_are_relative_to_the_data_dir_unless_they_are_absolute(paths):
    Builds(paths).every()
    Engine.put(**ROW)
    Engine.put(**{**ROW, "tag": "local", "path": "/opt/llama/llama-server", "active": True, "pinned": True, "turn": 1})
    one, local = Builds(paths).every()
    assert one == Build("llamacpp", "b1", paths.data_dir / "engines/b1/llama-server", "cpu", "a release", "e" * 64,
                        "2026-01-02T03:04:05Z", False, False, 0)
    assert str(local.path) == "/opt/llama/llama-server" and local.active is True and local.pinned is True
    assert Builds(paths).in_use("llamacpp") == local == Builds(paths).find("local")
    with pytest.raises(BuildNotFound, match="installed are b1, local"):
        Builds(paths).find("b2")


def test_a_moved_data_dir_keeps_its_builds(tmp_path, paths):
    Builds(paths).every()
    Engine.put(**{**ROW, "active": True})
    close_database()
    paths.data_dir.rename(tmp_path / "moved")
    (build,) = Builds(Paths(tmp_path / "moved")).every()
    assert build.path == tmp_path / "moved" / "engines/b1/llama-server"
    assert build.program.argv == (str(build.path),) and build.program.tag == build.program.source == "b1"


@pytest.mark.parametrize(("flavour", "expected"), [
    ("cpu", False), ("cpu-arm64", False), ("vulkan", True), ("cuda-12.4", True), ("embedded", False)])
def test_builds_for_processors_alone_use_no_card(tmp_path, flavour, expected):
    build = Build("llamacpp", "b1", tmp_path, flavour, "x", None, "x", True, False, 0)
    assert uses_cards(build.program, [build]) is expected


@pytest.mark.parametrize(("source", "expected"), [("PATH", True), ("BLAZAR_ENGINE_PATH", True), ("embedded", False)])
def test_of_other_programs_nobody_knows_it(source, expected):
    assert uses_cards(Program("llamacpp", ("x",), source, tag=source.lower()), []) is expected
