"""The database handle, its pragmas, and the one place where what SQLite cannot do becomes words.

Tables name `database`; `open_database` says at run time which file it is. Rooms outside `models/` write no
queries: they call methods of the tables, each marked `@query`.
"""

import errno
import functools
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import peewee

from blazar.errors import BlazarError, DatabaseFull, DatabaseLocked, DatabaseOutOfReach, DatabaseUnusable

BUSY_TIMEOUT = 5.0
"""Seconds to wait for another process's transaction before giving up; the gateway waits longer for an answer."""

P = ParamSpec("P")
R = TypeVar("R")

database = peewee.SqliteDatabase(None)

LOCKED = "locked"
FULL, FAILED = "full", "disk i/o"
UNOPENED = "unable to open"

REMEDIES = (
    # what SQLite says, what it means, what to do
    ("malformed", "it is damaged", "move it away and restore the newest blazar.db.bak-* beside it, or let "
                                   "`blazar pull` build a new one"),
    ("not a database", "it is not a SQLite file", "move it away; `blazar pull` makes a new one"),
    ("readonly", "it may not be written", "run this as the user who owns it, or choose another `--data-dir`"),
    (UNOPENED, "it cannot be opened", "see that its folder exists and is yours to write, or choose another "
                                              "`--data-dir`"),
    (LOCKED, f"another program kept it locked for {BUSY_TIMEOUT:.0f} s", "end that program, then try again"),
    (FAILED, "the disk failed", "look at what the kernel says of it (`dmesg`), then try again"),
    ("no such", "its tables are not those of this Blazar", "start `blazar serve` once, which brings it up to date"),
)


class Table(peewee.Model):
    """What all tables share: the database they lie in."""

    class Meta:
        database = database


def open_database(path: Path) -> None:
    """Say that the tables lie in the file `path` from now on. It is opened, per thread, at the first query."""
    if database.database != str(path):
        if not database.is_closed():
            database.close()
        database.init(str(path), pragmas={"journal_mode": "wal", "synchronous": "normal",
                                          "busy_timeout": int(BUSY_TIMEOUT * 1000)})


def close_database() -> None:
    """Close this thread's connection; the next query opens it again."""
    if database.database and not database.is_closed():
        database.close()


def query(method: Callable[P, R]) -> Callable[P, R]:
    """Mark a table's method that speaks SQL: one transaction, whose failure is told in words.

    The method must return plain values, not a peewee query, which would run after this has returned.
    """
    return _told(method, "DEFERRED")


def change(method: Callable[P, R]) -> Callable[P, R]:
    """As `query`, for a method that reads before it writes: it waits for other writers first. Without that SQLite
    refuses the write, since what was read may have changed."""
    return _told(method, "IMMEDIATE")


def _told(method: Callable[P, R], begin: str) -> Callable[P, R]:
    @functools.wraps(method)
    def told(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            with database.atomic(begin):
                return method(*args, **kwargs)
        except DatabaseUnusable:  # of a method within this one, which may not close what is in use here
            _begin_anew()
            raise
        except (peewee.PeeweeException, sqlite3.Error) as error:
            _begin_anew()
            raise in_words(Path(database.database), error) from error
    return told


def _begin_anew() -> None:
    """Close this thread's connection after a failure, once no transaction is open in it."""
    if not database.in_transaction():
        close_database()


def in_words(path: Path, error: Exception) -> BlazarError:
    """The error for a person that `error`, of SQLite or peewee, stands for."""
    text = _said(error)
    if FULL in text.lower() or (FAILED in text.lower() and _is_full(path)):
        return DatabaseFull(path=path)
    if UNOPENED in text.lower() and _is_starved():
        return DatabaseOutOfReach(path=path)
    for sign, reason, remedy in REMEDIES:
        if sign in text.lower():
            kind = DatabaseLocked if sign == LOCKED else DatabaseUnusable
            return kind(path=path, reason=reason, remedy=remedy)
    return DatabaseUnusable(path=path, reason=text, remedy="try again, and report it if it stays so")


def _said(error: BaseException) -> str:
    """What SQLite said first: on a full disk it undoes a transaction by itself, and what fails last is undoing that."""
    while "cannot rollback" in str(error) and error.__context__ is not None:
        error = error.__context__
    return str(error)


def _is_full(path: Path) -> bool:
    """Whether the disk has no block left: then SQLite says now this, now that it failed."""
    try:
        return os.statvfs(path.parent).f_bavail == 0
    except OSError:
        return False


def _is_starved() -> bool:
    """Whether this process can open no file at all: SQLite does not say so."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno in (errno.EMFILE, errno.ENFILE)
    return False
