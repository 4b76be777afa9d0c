"""The sweep, at boot and at the very end: ends what a supervisor of this data dir left, and clears run/ of its files.

A process is ours only by the mark in its environment, which names this data dir; a pid file alone proves nothing,
since the number may long belong to somebody else. Survivors are never adopted.
"""

import logging

from blazar.paths import Paths
from blazar.supervisor import processes

log = logging.getLogger(__name__)

LEFTOVERS = ("*.pid", "*.apikey", "*.sock")


def sweep(paths: Paths) -> list[int]:
    """End all survivors and remove stale files. The caller holds daemon.lock. Returns pids that would not end."""
    survivors = processes.marked(paths.data_dir_id)
    for pid in survivors:
        log.warning("ending pid %d, left behind: %s", pid, processes.command_of(pid))
    remaining = processes.end(survivors)
    for pattern in LEFTOVERS:
        for file in paths.run.glob(pattern):
            file.unlink(missing_ok=True)
    return remaining
