"""Bring a database to the schema of this Blazar: numbered steps, a backup before each change, all or nothing.

The schema's number is SQLite's `user_version`. A step is a module `migrations/NNNN_what.py` with a tuple
STATEMENTS; steps are frozen once released, so they hold SQL and never use the table classes.
"""

import contextlib
import importlib
import os
import pkgutil
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from blazar.errors import DatabaseUnusable, SchemaNewer
from blazar.models import migrations
from blazar.models.base import BUSY_TIMEOUT, in_words

Steps = Mapping[int, Sequence[str]]


def known_steps() -> dict[int, Sequence[str]]:
    """Statements by schema number, from the modules in `migrations/`."""
    found = {}
    for module in pkgutil.iter_modules(migrations.__path__):
        step = importlib.import_module(f"{migrations.__name__}.{module.name}")
        found[int(module.name.partition("_")[0])] = step.STATEMENTS
    return dict(sorted(found.items()))


def schema_of(path: Path) -> int:
    """The schema number of the database at `path`; 0 when there is none yet."""
    if not path.exists():
        return 0
    with _connected(path) as connection:
        return _schema(connection)


def migrate(path: Path, steps: Steps | None = None) -> int:
    """Create the database at `path`, or bring it up to date; returns the schema number it had before.

    The caller holds store.lock, and daemon.lock too unless the database is missing. An existing database is
    copied to `blazar.db.bak-<schema>` first. Raises SchemaNewer or DatabaseUnusable.
    """
    steps = known_steps() if steps is None else steps
    newest = max(steps)
    with _connected(path) as connection:
        before = _schema(connection)
        if before > newest:
            raise SchemaNewer(path=path, found=before, known=newest)
        if before == newest:
            return before
        if before == 0 and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise DatabaseUnusable(path=path, reason="it belongs to another program",
                                   remedy="move it away, or choose another `--data-dir`")
        if before:
            _back_up(connection, path.with_name(f"{path.name}.bak-{before}"))
        _apply(connection, {number: steps[number] for number in steps if number > before})
    return before


def _schema(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _apply(connection: sqlite3.Connection, steps: Steps) -> None:
    connection.execute("PRAGMA journal_mode = wal")
    connection.execute("BEGIN IMMEDIATE")
    try:
        for number, statements in steps.items():
            for statement in statements:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {number:d}")
        connection.execute("COMMIT")
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _back_up(connection: sqlite3.Connection, target: Path) -> None:
    """A whole copy under `target`'s name, or none: half a backup would be worse than no backup."""
    partial = target.with_name(target.name + ".partial")
    partial.unlink(missing_ok=True)
    with contextlib.closing(sqlite3.connect(partial)) as copy:
        connection.backup(copy)
    with open(partial, "rb") as file:
        os.fsync(file.fileno())
    partial.replace(target)


@contextlib.contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    """A plain connection without implicit transactions; failures of SQLite and the disk are told in words."""
    try:
        with contextlib.closing(sqlite3.connect(path, timeout=BUSY_TIMEOUT, isolation_level=None)) as connection:
            yield connection
    except (sqlite3.Error, OSError) as error:
        raise in_words(path, error) from error
