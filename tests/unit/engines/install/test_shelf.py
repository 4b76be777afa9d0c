"""Builds put in place and removed: what a folder without a row, or a row without a folder, leads to."""

from pathlib import Path

import pytest

from blazar.download.sweep import KEPT
from blazar.engines.install.retention import prune
from blazar.engines.install.shelf import Shelf, checked
from blazar.errors import BuildInUse, BuildNotFound, EnginesBusy, UsageRefused
from blazar.models.base import close_database
from blazar.models.engine import Engine
from blazar.paths import Paths
from tests.support.downloads import grow_old


@pytest.fixture
def shelf(tmp_path):
    yield Shelf(Paths(tmp_path / "data"))
    close_database()


def put(shelf: Shelf, tag: str, content: str = "#!") -> Path:
    with shelf.assembling(tag) as folder:
        (folder / "bin").mkdir()
        (folder / "bin" / "llama-server").write_text(content)
        return shelf.place(folder, folder / "bin" / "llama-server", tag, "cpu", "a test", None).path


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def test_a_build_gets_its_name_when_it_is_whole(shelf):
    engines = shelf.paths.engines
    with shelf.changing():
        path = put(shelf, "b1")
    assert path == engines / "b1" / "bin" / "llama-server" and path.read_text() == "#!"
    assert Engine.find("llamacpp", "b1")["path"] == "engines/b1/bin/llama-server"
    assert shelf.builds.in_use("llamacpp") is None
    assert names(engines) == {".incoming", "b1"} and names(engines / ".incoming") == {"downloads"}


def test_what_is_not_placed_is_gone(shelf):
    with shelf.changing():
        with pytest.raises(ZeroDivisionError), shelf.assembling("b1") as folder:
            (folder / "half").write_text("x")
            raise ZeroDivisionError
        assert names(shelf.paths.engines / ".incoming") == {"downloads"} and shelf.builds.every() == []


def test_a_folder_without_a_row_is_replaced(shelf):
    """What a kill between the rename and the row leaves."""
    with shelf.changing():
        (shelf.paths.engines / "b1").mkdir()
        (shelf.paths.engines / "b1" / "old").write_text("x")
        put(shelf, "b1")
    assert names(shelf.paths.engines / "b1") == {"bin"}


def test_a_build_in_the_place_of_another_is_what_that_was(shelf):
    with shelf.changing():
        for tag in ("b1", "b2", "b3"):
            put(shelf, tag)
            shelf.take_into_use(shelf.builds.find(tag))
        Engine.pin("llamacpp", "b2", True)
        before = [(build.tag, build.active, build.pinned, build.turn) for build in shelf.builds.every()]
        assert before == [("b1", False, False, 1), ("b2", False, True, 2), ("b3", True, False, 3)]
        for tag in ("b1", "b2", "b3"):
            put(shelf, tag)
        assert [(build.tag, build.active, build.pinned, build.turn) for build in shelf.builds.every()] == before


def test_leftovers_are_swept_and_downloads_kept(shelf):
    with shelf.changing():
        pass
    incoming = shelf.paths.engines / ".incoming"
    (incoming / "build-b1" / "deep").mkdir(parents=True)
    (incoming / "gone-b0").mkdir()
    for name in ("a.tar.gz.part", "a.tar.gz.part.json", "b.tar.gz", "aa.tar.gz.part"):
        (shelf.downloads / name).write_text("x")
    with shelf.changing():
        assert names(incoming) == {"downloads"}
        shelf.keep_downloads(["a.tar.gz"])
        assert names(shelf.downloads) == {"a.tar.gz.part", "a.tar.gz.part.json"}


def test_downloads_that_nobody_went_on_with_are_given_up(shelf):
    with shelf.changing():
        (shelf.downloads / "a.tar.gz.part").write_text("x")
    grow_old(shelf.downloads, KEPT - 60)
    with shelf.changing():
        assert names(shelf.downloads) == {"a.tar.gz.part"}
    grow_old(shelf.downloads, KEPT + 60)
    with shelf.changing():
        assert names(shelf.downloads) == set()


def test_one_at_a_time(shelf):
    with shelf.changing():
        with pytest.raises(EnginesBusy), Shelf(shelf.paths).changing():
            pass
    with shelf.changing():
        pass


def test_removing(shelf, tmp_path):
    outside = tmp_path / "mine" / "llama-server"
    outside.parent.mkdir()
    outside.write_text("#!")
    with shelf.changing():
        for tag in ("b1", "b2"):
            put(shelf, tag)
        Engine.put(kind="llamacpp", tag="local", path=str(outside), flavour="cpu", source="BLAZAR_ENGINE_PATH",
                   sha256=None, installed_at="2026-01-01T00:00:00Z", active=False, pinned=False, turn=0)
        shelf.take_into_use(shelf.builds.find("b1"))
        with pytest.raises(BuildInUse):
            shelf.remove(shelf.builds.find("b1"))
        for tag in ("b2", "local"):
            shelf.remove(shelf.builds.find(tag))
        with pytest.raises(BuildNotFound):
            shelf.builds.find("b2")
    assert [build.tag for build in shelf.builds.every()] == ["b1"]
    assert names(shelf.paths.engines) == {".incoming", "b1"} and outside.exists()


def test_pruning(shelf):
    with shelf.changing():
        for tag in ("b1", "b2", "b3"):
            put(shelf, tag)
        shelf.take_into_use(shelf.builds.find("b1"))
        assert prune(shelf, 1) == ["b2"]  # b3 is the newest, b1 in use
    assert names(shelf.paths.engines) == {".incoming", "b1", "b3"}


@pytest.mark.parametrize("tag", ["", ".", "..", "../b1", "a/b", ".incoming", "b1\n", "x" * 101])
def test_a_tag_is_the_name_of_a_folder(tag):
    with pytest.raises(UsageRefused):
        checked(tag)
