"""Who may bring the database to this Blazar's schema, and when."""

import logging
import os

from blazar.errors import StoreUnwritable
from blazar.models.migrate import Steps, known_steps, migrate, schema_of
from blazar.paths import Paths
from blazar.store.locks import locked, try_lock

log = logging.getLogger(__name__)


def prepare_database(paths: Paths, holds_daemon_lock: bool, steps: Steps | None = None) -> None:
    """Create a missing database; change an older one only when no other daemon works with it.

    Raises SchemaNewer, DatabaseUnusable, or StoreUnwritable when a daemon stands in the way.
    """
    steps = known_steps() if steps is None else steps
    with locked(paths.store_lock):
        is_older = 0 < schema_of(paths.database) < max(steps)
        if not is_older or holds_daemon_lock:
            if migrate(paths.database, steps) == 0:
                _tell_orphans(paths)
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


def _tell_orphans(paths: Paths) -> None:
    """Say so when the database that is new has been there before: nothing names the model files then."""
    files = len(list(paths.blobs.glob("*"))) if paths.blobs.is_dir() else 0
    if files:
        log.warning("%s was missing and is made anew, so the %d model files in %s have no names any more; restore a "
                    "copy of it while no daemon runs, or pull the models again", paths.database, files, paths.blobs)
