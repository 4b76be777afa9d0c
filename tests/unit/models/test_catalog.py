import pytest

from blazar.models.base import close_database, open_database
from blazar.models.catalog import Catalog
from blazar.models.migrate import migrate

LANE = {"name": "one", "summary": "for One", "architectures": ["one", "one-moe"], "assets": [{"flavour": "cpu"}],
        "superseded": {"one": 7}}
THEN, NOW = "2026-01-02T03:04:05Z", "2026-01-03T03:04:05Z"


@pytest.fixture(autouse=True)
def database(tmp_path):
    migrate(tmp_path / "blazar.db")
    open_database(tmp_path / "blazar.db")
    yield
    close_database()


def test_what_is_offered_replaces_what_was():
    Catalog.offer([LANE, {**LANE, "name": "two"}], THEN)
    Catalog.superseded_since("one", THEN)
    Catalog.offer([{**LANE, "superseded": {}}], NOW)
    assert Catalog.every() == [
        {**LANE, "superseded": {}, "offered": True, "curated": True, "since": THEN, "seen_at": NOW},
        {**LANE, "name": "two", "offered": False, "curated": True, "since": None, "seen_at": THEN}]
    Catalog.keep(["two"])
    assert [row["name"] for row in Catalog.every()] == ["one", "two"]
    Catalog.keep([])
    assert [row["name"] for row in Catalog.every()] == ["one"]


def test_a_lane_made_here_keeps_its_name():
    Catalog.own("one", ["b", "a"], THEN)
    Catalog.offer([LANE], NOW)
    [row] = Catalog.every()
    assert (row["curated"], row["offered"], row["architectures"], row["summary"]) == (False, False, ["a", "b"],
                                                                                     "made here")
