"""Schemas: creation, upgrades with a backup, and what is refused."""

import pkgutil
import sqlite3

import pytest

from blazar.errors import DatabaseUnusable, SchemaNewer
from blazar.models import migrations
from blazar.models.alias import Alias
from blazar.models.base import Table
from blazar.models.engine import Engine
from blazar.models.installed_model import InstalledModel
from blazar.models.migrate import known_steps, migrate, schema_of
from blazar.models.stored import Completion, Response

NEWEST = max(known_steps())
STEPS = {1: ("CREATE TABLE a (x)",), 2: ("CREATE TABLE b (y)", "INSERT INTO b VALUES (7)")}


def rows(path, sql):
    connection = sqlite3.connect(path)
    found = connection.execute(sql).fetchall()
    connection.close()
    return found


def files(folder):
    return sorted(path.name for path in folder.iterdir())


def test_steps_are_numbered_in_order_and_once():
    numbers = [int(module.name.partition("_")[0]) for module in pkgutil.iter_modules(migrations.__path__)]
    assert list(known_steps()) == sorted(numbers) and len(set(numbers)) == len(numbers)


def test_a_missing_database_is_created(tmp_path):
    path = tmp_path / "blazar.db"
    assert schema_of(path) == 0 and not path.exists()
    assert migrate(path) == 0
    assert schema_of(path) == NEWEST
    assert files(tmp_path) == ["blazar.db"]
    assert rows(path, "PRAGMA journal_mode") == [("wal",)]


def test_an_up_to_date_database_is_left_alone(tmp_path):
    path = tmp_path / "blazar.db"
    migrate(path)
    before = path.read_bytes()
    assert migrate(path) == NEWEST
    assert path.read_bytes() == before and files(tmp_path) == ["blazar.db"]


@pytest.mark.parametrize("table", [InstalledModel, Alias, Engine, Completion, Response])
def test_tables_have_the_columns_that_the_steps_made(tmp_path, table: type[Table]):
    path = tmp_path / "blazar.db"
    migrate(path)
    made = {(name, bool(required), bool(key)) for _, name, _, required, _, key
            in rows(path, f"PRAGMA table_info({table._meta.table_name})")}
    keys = {field.column_name for field in table._meta.get_primary_keys()}
    declared = {(field.column_name, not field.null, field.column_name in keys) for field in table._meta.sorted_fields}
    assert made == declared


def test_an_upgrade_keeps_a_backup_of_the_old_schema(tmp_path):
    path = tmp_path / "blazar.db"
    migrate(path, {1: STEPS[1]})
    connection = sqlite3.connect(path)
    connection.execute("INSERT INTO a VALUES ('kept')")
    connection.commit()
    assert migrate(path, STEPS) == 1  # while another connection is open, as a running reader's would be
    connection.close()
    assert schema_of(path) == 2
    assert rows(path, "SELECT y FROM b") == [(7,)] and rows(path, "SELECT x FROM a") == [("kept",)]
    backup = tmp_path / "blazar.db.bak-1"
    assert schema_of(backup) == 1 and rows(backup, "SELECT x FROM a") == [("kept",)]
    assert files(tmp_path) == ["blazar.db", "blazar.db.bak-1"]


def test_a_failing_step_changes_nothing(tmp_path):
    path = tmp_path / "blazar.db"
    migrate(path, {1: STEPS[1]})
    with pytest.raises(DatabaseUnusable):
        migrate(path, {**STEPS, 3: ("CREATE TABLE c (z)", "this is no SQL")})
    assert schema_of(path) == 1
    assert rows(path, "SELECT name FROM sqlite_master") == [("a",)]
    assert migrate(path, STEPS) == 1


def test_a_newer_schema_is_refused_with_words(tmp_path):
    path = tmp_path / "blazar.db"
    migrate(path)
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(SchemaNewer) as caught:
        migrate(path)
    assert f"has schema 99 and this Blazar knows up to {NEWEST}" in caught.value.message
    assert f"blazar.db.bak-{NEWEST}" in caught.value.message
    assert schema_of(path) == 99


def test_another_program_s_database_is_refused(tmp_path):
    path = tmp_path / "blazar.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.close()
    with pytest.raises(DatabaseUnusable, match="another program"):
        migrate(path)


def test_an_empty_file_counts_as_missing(tmp_path):
    path = tmp_path / "blazar.db"
    path.touch()
    assert migrate(path) == 0 and schema_of(path) == NEWEST


@pytest.mark.parametrize(("content", "words"), [
    (b"this is no database at all, but long enough to be looked at\n" * 40, "not a SQLite file"),
    (b"SQLite format 3\0" + b"\xff" * 2000, "not a SQLite file"),
])
def test_garbage_is_refused_with_words(tmp_path, content, words):
    path = tmp_path / "blazar.db"
    path.write_bytes(content)
    with pytest.raises(DatabaseUnusable, match=words):
        migrate(path)
    assert path.read_bytes() == content


def test_a_folder_in_its_place_is_refused_with_words(tmp_path):
    (tmp_path / "blazar.db").mkdir()
    with pytest.raises(DatabaseUnusable, match="cannot be opened"):
        migrate(tmp_path / "blazar.db")


def test_no_number_is_left_out():
    """A step that came later with a lower number would never run on a database that is further already."""
    assert list(known_steps()) == list(range(1, NEWEST + 1))
