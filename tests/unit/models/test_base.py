"""The database handle: locks are waited for, failures are told in words."""

import os
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from blazar.errors import DatabaseLocked, DatabaseUnusable
from blazar.models.alias import Alias
from blazar.models.base import close_database, database, open_database, query
from blazar.models.engine import Engine
from blazar.models.message_batch import MessageBatch
from blazar.models.migrate import migrate

REPOSITORY = Path(__file__).parents[3]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "blazar.db"
    migrate(path)
    open_database(path)
    yield path
    close_database()


def test_pragmas(path):
    Alias.put("a", "m:q4_0")
    assert database.execute_sql("PRAGMA journal_mode").fetchone() == ("wal",)
    assert database.execute_sql("PRAGMA synchronous").fetchone() == (1,)
    assert database.execute_sql("PRAGMA busy_timeout").fetchone() == (5_000,)


def test_another_file_can_be_opened(path, tmp_path):
    Alias.put("a", "one:q4_0")
    other = tmp_path / "other.db"
    migrate(other)
    open_database(other)
    assert Alias.targets() == {}
    open_database(path)
    assert Alias.targets() == {"a": "one:q4_0"}


def test_threads_have_connections_of_their_own(path):
    threads = [threading.Thread(target=Alias.put, args=(f"a{number}", "m:q4_0")) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(Alias.targets()) == 8


def test_a_locked_database_is_waited_for(path):
    holder = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    begun = time.monotonic()
    timer = threading.Timer(0.4, holder.execute, ["COMMIT"])
    timer.start()
    Alias.put("a", "m:q4_0")
    assert time.monotonic() - begun >= 0.35
    timer.join()
    holder.close()
    assert Alias.targets() == {"a": "m:q4_0"}


@pytest.mark.parametrize("act", [
    lambda: MessageBatch.put("", "b2", [("r", "{}")], 5.0), lambda: MessageBatch.forget("", "b1"),
    lambda: Engine.activate("llamacpp", "b1")], ids=["put", "forget", "activate"])
def test_what_reads_before_it_writes_waits_too(path, act):
    """SQLite itself refuses at once to let a reader become a writer."""
    MessageBatch.put("", "b1", [("r", "{}")], 1.0)
    MessageBatch.cancel("", "b1", 2.0)
    Engine.put(kind="llamacpp", tag="b1", path="p", flavour="cpu", source="here", installed_at="")
    holder = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    timer = threading.Timer(0.3, holder.execute, ["COMMIT"])
    timer.start()
    assert act()
    timer.join()
    holder.close()


@query
def put_within():
    Alias.put("a", "m:q4_0")


@pytest.mark.parametrize("put", [lambda: Alias.put("a", "m:q4_0"), put_within])
def test_one_that_stays_locked_is_told_in_words(path, put):
    database.execute_sql("PRAGMA busy_timeout = 20")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(DatabaseLocked, match="kept it locked") as caught:
        put()
    assert (caught.value.status, caught.value.retry_after) == (503, 5.0)
    holder.close()
    assert database.is_closed(), "the next one begins anew"
    put()
    assert Alias.targets() == {"a": "m:q4_0"}


def test_readers_do_not_wait_for_a_writer(path):
    Alias.put("a", "m:q4_0")
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    holder.execute("DELETE FROM alias")
    assert Alias.targets() == {"a": "m:q4_0"}
    holder.close()


def test_damage_is_told_in_words(path):
    with sqlite3.connect(path) as connection:
        connection.executemany("INSERT INTO alias VALUES (?, 'm')", [(f"n{number}",) for number in range(5000)])
    connection.close()
    close_database()
    size = path.stat().st_size
    with open(path, "r+b") as file:
        for page in range(3, size // 4096):
            file.seek(page * 4096)
            file.write(b"\xff" * 4096)
    with pytest.raises(DatabaseUnusable) as caught:
        Alias.targets()
    assert "it is damaged" in caught.value.message and "blazar.db.bak-" in caught.value.message


@pytest.mark.parametrize("left", [100, 3000, 5000])
def test_a_cut_database_is_told_in_words(path, left):
    Alias.put("a", "m:q4_0")
    close_database()
    os.truncate(path, left)
    with pytest.raises(DatabaseUnusable) as caught:
        Alias.put("b", "m:q4_0")
    assert str(path) in caught.value.message


def test_missing_tables_are_told_in_words(tmp_path):
    open_database(tmp_path / "never-made.db")
    with pytest.raises(DatabaseUnusable, match="blazar serve"):
        Alias.targets()


@pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser can become another user")
def test_a_database_that_may_not_be_written_is_told_in_words():
    """As another user, because the superuser may write everything."""
    code = ("import os, sys; from pathlib import Path\n"
            "from blazar.models.base import open_database; from blazar.models.alias import Alias\n"
            "os.setuid(65534); open_database(Path(sys.argv[1]))\n"
            "try: Alias.put('b', 'm'); print('written')\n"
            "except Exception as error: print(type(error).__name__, error)\n")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "blazar.db")
        migrate(path)
        path.chmod(0o444)
        path.parent.chmod(0o755)
        done = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True,
                              env={**os.environ, "PYTHONPATH": str(REPOSITORY)})
    assert done.stdout.startswith("DatabaseUnusable"), done.stdout + done.stderr
    assert "may not be written" in done.stdout or "cannot be opened" in done.stdout
