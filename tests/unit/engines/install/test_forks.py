"""Lanes of a real catalog on loopback: installed, kept beside the main engine, retired."""

import os

import pytest

from blazar.engines.forks import DAY, FORKS
from blazar.engines.install.forks import Forks
from blazar.engines.install.installer import Wishes
from blazar.engines.install.retention import prune
from blazar.engines.install.shelf import Shelf
from blazar.errors import (
    ArchiveRefused,
    BlazarError,
    BuildRefused,
    CatalogRefused,
    DigestMismatch,
    LaneNotFound,
    NoAssetHere,
)
from blazar.models.catalog import Catalog
from blazar.models.engine import Engine
from blazar.paths import Paths
from blazar.store.store import Store
from tests.support.engine_builds import tar
from tests.support.lane_catalog import LaneCatalog, stub_archive
from tests.support.tool_stubs import put_build

NOW = 1_800_000_000.0


@pytest.fixture
def server():
    with LaneCatalog() as server:
        yield server


@pytest.fixture
def shelf(tmp_path):
    shelf = Shelf(Paths(tmp_path / "data").ensure())
    Store(shelf.paths).list()
    put_build(shelf.paths, "b100", active=True)
    return shelf


@pytest.fixture
def forks(shelf):
    return Forks(shelf)


def install(forks, name):
    return forks.install(name, Wishes(), lambda stage, done, total: None)


def state(shelf):
    """Tags of all builds, the folders of engines/, and what is under way or downloaded."""
    incoming = shelf.paths.engines / ".incoming"
    left = [str(path.relative_to(incoming)) for path in incoming.rglob("*")] if incoming.exists() else []
    return ([build.tag for build in shelf.builds.every()],
            sorted(path.name for path in shelf.paths.engines.iterdir() if path != incoming),
            [name for name in left if name != "downloads"])


def test_a_lane_stands_beside_the_main_engine(server, shelf, forks):
    server.offer(server.lane("one", "one", "one-moe"), server.lane("two", "two"))
    forks.refresh(server.catalog_url)
    assert [(row["name"], row["build"]) for row in forks.rows()] == [("one", None), ("two", None)]
    build, changed = install(forks, "one")
    assert (build.tag, build.kind, build.flavour, build.active, changed) == ("fork-one", FORKS, "cpu", False, True)
    assert os.access(build.path, os.X_OK) and build.program.kind == "llamacpp"
    assert shelf.builds.in_use("llamacpp").tag == "b100"
    assert state(shelf) == (["b100", "fork-one"], ["b100", "fork-one"], [])
    assert [row["build"] and row["build"].tag for row in forks.rows()] == ["fork-one", None]
    sent = server.sent("one")
    assert sent > 0 and install(forks, "one") == (build, False) and server.sent("one") == sent


def test_a_newer_archive_takes_its_place_and_keeps_the_pin(server, shelf, forks):
    server.offer(server.lane("one", "one"))
    forks.refresh(server.catalog_url)
    install(forks, "one")
    Engine.pin(FORKS, "fork-one", True)
    server.offer(server.lane("one", "one", archive=stub_archive("newer")))
    forks.refresh(server.catalog_url)
    build, changed = install(forks, "one")
    assert changed and build.pinned and "# newer" in build.path.read_text()
    assert state(shelf) == (["b100", "fork-one"], ["b100", "fork-one"], [])


@pytest.mark.parametrize(("asset", "archive", "error", "words"), [
    ({"sha256": "0" * 64}, None, DigestMismatch, "expected 0000"),
    ({"machine": "vax"}, None, NoAssetHere, "fork-one has no build that runs"),
    ({"flavour": "cuda"}, None, NoAssetHere, "fork-one has no build that runs"),
    ({}, tar({"llama/README": b"x"}), ArchiveRefused, "it holds no llama-server"),
    ({}, tar({"../llama-server": b"x"}), ArchiveRefused, "no plain path inside it"),
    ({}, stub_archive(first="echo this machine is too old >&2; exit 3"), BuildRefused,
     "it does not start on this machine: it ended with exit code 3; it said: this machine is too old; nothing was")])
def test_what_is_wrong_with_a_lane_installs_nothing(server, shelf, forks, asset, archive, error, words):
    server.offer(server.lane("one", "one", archive=archive, **asset))
    forks.refresh(server.catalog_url)
    with pytest.raises(error, match=words):
        install(forks, "one")
    tags, folders, left = state(shelf)
    assert (tags, folders) == (["b100"], ["b100"]) and not [name for name in left if "downloads" not in name]


def test_a_lane_that_nobody_offers(server, forks):
    server.offer(server.lane("one", "one"), server.lane("two", "two"))
    forks.refresh(server.catalog_url)
    with pytest.raises(LaneNotFound, match="there is no engine lane 'three'; the catalog has one, two"):
        install(forks, "three")
    server.offer()
    forks.refresh(server.catalog_url)
    with pytest.raises(LaneNotFound, match="the catalog has none"):
        install(forks, "one")


def test_a_catalog_that_is_broken_today_changes_nothing(server, forks):
    server.offer(server.lane("one", "one"))
    forks.refresh(server.catalog_url)
    server.put("/lanes/catalog.json", b"<html>maintenance</html>")
    with pytest.raises(CatalogRefused):
        forks.refresh(server.catalog_url)
    assert [row["name"] for row in forks.rows()] == ["one"]


def test_a_withdrawn_lane_is_known_as_long_as_its_build_is_here(server, shelf, forks):
    server.offer(server.lane("one", "one"))
    forks.refresh(server.catalog_url)
    build, _ = install(forks, "one")
    server.offer()
    forks.refresh(server.catalog_url)
    assert [(row["name"], row["offered"]) for row in forks.rows()] == [("one", False)]
    with shelf.changing():
        shelf.remove(build)
    forks.refresh(server.catalog_url)
    assert forks.rows() == []


def test_a_superseded_lane_goes_days_after_the_main_engine_knows_all_of_it(server, shelf, forks):
    server.offer(server.lane("one", "one", "two", superseded={"one": 90, "two": 101}))
    forks.refresh(server.catalog_url)
    install(forks, "one")
    assert forks.tend(7, NOW) == [] and Catalog.every()[0]["since"] is None
    put_build(shelf.paths, "b101", active=True)
    assert forks.tend(7, NOW) == [] and Catalog.every()[0]["since"] is not None
    put_build(shelf.paths, "b100", active=True)
    assert forks.tend(7, NOW + DAY) == [] and Catalog.every()[0]["since"] is None  # a rollback starts it anew
    Engine.activate("llamacpp", "b101")
    forks.tend(7, NOW + 2 * DAY)
    forks.refresh(server.catalog_url)
    assert forks.tend(7, NOW + 9 * DAY - 2) == [] and forks.tend(0, NOW + 99 * DAY) == []
    assert forks.tend(7, NOW + 9 * DAY, {"fork-one"}) == []  # a model is pinned to it
    assert forks.tend(7, NOW + 9 * DAY) == ["fork-one"]
    assert state(shelf) == (["b100", "b101"], ["b100", "b101"], [])


def test_a_lane_made_here_stays_whatever_the_catalog_says(server, shelf, forks):
    put_build(shelf.paths, "fork-one", kind=FORKS)
    Catalog.own("one", ["one"], "2026-01-01T00:00:00Z")
    server.offer(server.lane("one", "one", superseded={"one": 1}))
    forks.refresh(server.catalog_url)
    for day in range(0, 100, 10):
        assert forks.tend(7, NOW + day * DAY) == []
    with shelf.changing():
        assert prune(shelf, 1) == []
    assert state(shelf)[0] == ["b100", "fork-one"]
    with pytest.raises(BlazarError, match="there is no engine lane 'one'"):
        install(forks, "one")
