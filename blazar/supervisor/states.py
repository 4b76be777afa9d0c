"""The states of a child, and which may follow which."""

from enum import Enum


class State(Enum):
    ABSENT = "absent"
    """No process; the model may be asked for."""
    QUEUED = "queued"
    """Somebody waits for it; it may not start yet."""
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    """No new leases; the running requests end first."""
    STOPPING = "stopping"


ALLOWED = {
    State.ABSENT: {State.QUEUED},
    State.QUEUED: {State.STARTING, State.ABSENT},
    State.STARTING: {State.READY, State.STOPPING, State.ABSENT},
    State.READY: {State.DRAINING, State.STOPPING, State.ABSENT},
    State.DRAINING: {State.STOPPING, State.ABSENT},
    State.STOPPING: {State.ABSENT},
}

LIVE = frozenset({State.STARTING, State.READY, State.DRAINING, State.STOPPING})
"""States in which a process may exist, so that the child counts against max_loaded_models."""
