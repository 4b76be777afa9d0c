"""Who may bring the database to this Blazar's schema, and when."""

import os

from blazar.errors import StoreUnwritable
from blazar.models.migrate import Steps, known_steps, migrate, schema_of
from blazar.paths import Paths
from blazar.store.locks import locked, try_lock


def prepare_database(paths: Paths, holds_daemon_lock: bool, steps: Steps | None = None) -> None:
    """Create a missing database; change an older one only when no other daemon works with it.

    Raises SchemaNewer, DatabaseUnusable, or StoreUnwritable when a daemon stands in the way.
    """
    steps = known_steps() if steps is None else steps
    with locked(paths.store_lock):
        is_older = 0 < schema_of(paths.database) < max(steps)
        if not is_older or holds_daemon_lock:
            migrate(paths.database, steps)
            return
        paths.daemon_lock.touch()
        lock = try_lock(paths.daemon_lock)
        if lock is None:
            raise StoreUnwritable(path=paths.database, reason="it is of an older Blazar, whose daemon still runs",
                                  remedy="restart the daemon, which brings it up to date")
        try:
            migrate(paths.database, steps)
        finally:
            os.close(lock)
