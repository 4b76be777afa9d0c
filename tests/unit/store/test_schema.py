"""When the database is brought up to date, and by whom."""

import pytest

from blazar.errors import StoreUnwritable
from blazar.models.migrate import migrate, schema_of
from blazar.paths import Paths
from blazar.store.locks import locked
from blazar.store.schema import prepare_database

STEPS = {1: ("CREATE TABLE a (x)",), 2: ("CREATE TABLE b (y)",)}


@pytest.fixture
def older(tmp_path):
    """A data dir whose database is one schema behind."""
    paths = Paths(tmp_path / "data").ensure()
    migrate(paths.database, {1: STEPS[1]})
    return paths


def test_whoever_comes_first_creates_it_even_beside_a_daemon(tmp_path):
    paths = Paths(tmp_path / "data").ensure()
    with locked(paths.daemon_lock):
        prepare_database(paths, holds_daemon_lock=False, steps=STEPS)
    assert schema_of(paths.database) == 2


def test_a_database_that_was_lost_is_told_of(tmp_path, caplog):
    paths = Paths(tmp_path / "data").ensure()
    prepare_database(paths, holds_daemon_lock=True, steps=STEPS)
    assert not caplog.records, "a first start"
    paths.database.unlink()
    (paths.blobs / "ab.gguf").touch()
    prepare_database(paths, holds_daemon_lock=True, steps=STEPS)
    prepare_database(paths, holds_daemon_lock=True, steps=STEPS)
    assert len(caplog.records) == 1 and "the 1 model files" in caplog.text and str(paths.database) in caplog.text


def test_a_local_verb_upgrades_when_no_daemon_runs(older):
    prepare_database(older, holds_daemon_lock=False, steps=STEPS)
    assert schema_of(older.database) == 2
    assert schema_of(older.data_dir / "blazar.db.bak-1") == 1


def test_a_local_verb_leaves_it_alone_beside_a_daemon(older):
    with locked(older.daemon_lock), pytest.raises(StoreUnwritable, match="restart the daemon"):
        prepare_database(older, holds_daemon_lock=False, steps=STEPS)
    assert schema_of(older.database) == 1


def test_the_daemon_upgrades_under_its_own_lock(older):
    with locked(older.daemon_lock):
        prepare_database(older, holds_daemon_lock=True, steps=STEPS)
    assert schema_of(older.database) == 2
