"""`RamWarm`: after an idle eviction the weights are read once more, so that the next load finds them in main memory.

One model at a time, on a thread. It ends at once when any model is loaded, which needs the disk and the memory more.
"""

import logging
import threading
from collections.abc import Sequence
from pathlib import Path

from blazar.hardware.memory import read_memory
from blazar.supervisor.child import Child
from blazar.supervisor.loop import Loop
from blazar.supervisor.means import Prepared
from blazar.supervisor.policies import ram_warm
from blazar.supervisor.pool import Pool
from blazar.units import format_bytes

log = logging.getLogger(__name__)

PIECE = 4 * 1024**2
ROOT = Path("/")


class RamWarm:
    """Used on the loop's thread only."""

    def __init__(self, loop: Loop) -> None:
        self._pool = Pool(loop, 1)
        self._stop = threading.Event()

    def after(self, child: Child) -> None:
        """Warm the weights of `child` once its process has ended."""
        prepared = child.prepared
        if prepared is not None and prepared.files:
            child.when_absent(lambda: self._warm(child.id, prepared))

    def end(self) -> None:
        """Leave whatever is under way."""
        self._stop.set()
        self._stop = threading.Event()

    def _warm(self, name: str, prepared: Prepared) -> None:
        self._pool.submit(lambda *_: None, warm, name, prepared, self._stop)


def warm(name: str, prepared: Prepared, stop: threading.Event) -> None:
    """Read the files, as far as that is wanted and nobody says `stop`."""
    memory = read_memory(ROOT)
    why = ram_warm.refusal(prepared.launch.settings, prepared.size, memory.free, memory.usable)
    if why:
        log.info("%s: its weights are not kept in main memory: %s", name, why)
        return
    try:
        size = touch(prepared.files, stop)
    except OSError as error:
        log.info("%s: its weights cannot be read: %s", name, error)
        return
    log.info("%s: %s of its weights lie in main memory", name, format_bytes(size))


def touch(files: Sequence[Path], stop: threading.Event) -> int:
    """Read the files up to their ends, or `stop`; the bytes read. Raises OSError."""
    buffer, done = bytearray(PIECE), 0
    for path in files:
        with path.open("rb", buffering=0) as file:
            while not stop.is_set() and (count := file.readinto(buffer)):
                done += count
    return done
