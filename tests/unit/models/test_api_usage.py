import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from blazar.models.api_usage import ApiUsage
from blazar.models.base import close_database, open_database
from blazar.models.migrate import known_steps, migrate


@pytest.fixture(autouse=True)
def database(tmp_path):
    migrate(tmp_path / "blazar.db")
    open_database(tmp_path / "blazar.db")
    yield tmp_path / "blazar.db"
    close_database()


def row(key, day, requests, prompt, completion, model="m:q4_0"):
    return {"key": key, "day": day, "model": model, "requests": requests, "prompt_tokens": prompt,
            "completion_tokens": completion}


def test_counts_add_up_by_key_and_day():
    ApiUsage.add([row("ann", "2026-01-01", 1, 2, 3), row("bob", "2026-01-01", 1, 1, 1)])
    ApiUsage.add([row("ann", "2026-01-01", 10, 20, 30), row("ann", "2026-01-02", 1, 2**40, 5)])
    ApiUsage.add([row("ann", "2026-01-01", 1, 1, 1, "n:q8_0")])
    assert ApiUsage.since("") == [row("ann", "2026-01-01", 11, 22, 33), row("ann", "2026-01-01", 1, 1, 1, "n:q8_0"),
                                  row("ann", "2026-01-02", 1, 2**40, 5), row("bob", "2026-01-01", 1, 1, 1)]
    assert ApiUsage.since("2026-01-02") == [row("ann", "2026-01-02", 1, 2**40, 5)]
    assert ApiUsage.keys() == ["ann", "bob"]
    assert ApiUsage.of_day("2026-01-01") == {"ann": 57, "bob": 2}
    assert ApiUsage.of_day("2026-01-03") == {}


def test_a_report_is_noted_whole_or_not_at_all():
    with pytest.raises(KeyError):
        ApiUsage.add([row("ann", "2026-01-01", 1, 2, 3), {"key": "bob", "day": "2026-01-01", "model": ""}])
    assert ApiUsage.since("") == []


WRITER = """
import sys
from pathlib import Path
from blazar.models.api_usage import ApiUsage
from blazar.models.base import open_database
open_database(Path(sys.argv[1]))
row = {"key": "ann", "day": "2026-01-01", "requests": 1, "prompt_tokens": 2, "completion_tokens": 3}
while True:
    ApiUsage.add([{**row, "model": model} for model in "abc"])
    print(".", end="", flush=True)
"""


def test_a_kill_in_the_midst_of_writing_loses_no_more_than_the_last_report(database):
    written = 0
    for _ in range(20):
        writer = subprocess.Popen([sys.executable, "-c", WRITER, str(database)], stdout=subprocess.PIPE)
        written += len(writer.stdout.read(20))
        writer.kill()
        written += len(writer.stdout.read())
        writer.wait()
        writer.stdout.close()
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    rows = ApiUsage.since("")
    assert {row["requests"] for row in rows} <= set(range(written, written + 21)) and len(rows) == 3
    assert all((row["prompt_tokens"], row["completion_tokens"]) == (2 * row["requests"], 3 * row["requests"])
               and row["requests"] == rows[0]["requests"] for row in rows)


def test_what_was_counted_by_day_stays_when_models_are_told_apart(tmp_path):
    old = tmp_path / "old.db"
    steps = known_steps()
    migrate(old, {number: steps[number] for number in steps if number < 10})
    with closing(sqlite3.connect(old)) as connection, connection:
        connection.execute("INSERT INTO api_usage VALUES ('ann', '2026-01-01', 1, 2, 3)")
    migrate(old)
    close_database()
    open_database(old)
    assert ApiUsage.since("") == [row("ann", "2026-01-01", 1, 2, 3, model="")]
