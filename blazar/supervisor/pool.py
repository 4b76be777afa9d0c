"""Threads for slow work; what they find comes back to the run loop as a posted call."""

import logging
import math
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from blazar.errors import BlazarError
from blazar.models.base import close_database
from blazar.supervisor.loop import Loop

log = logging.getLogger(__name__)

Then = Callable[[Any, BlazarError | None], None]


class Pool:
    """Used on the loop's thread only. At most `most` threads run at a time; what is beyond waits its turn."""

    def __init__(self, loop: Loop, most: float = math.inf) -> None:
        self._loop = loop
        self._free = most
        self._waiting: deque[tuple[Then, Callable[..., Any], tuple[Any, ...]]] = deque()

    def submit(self, then: Then, work: Callable[..., Any], *args: Any) -> None:
        """Run `work(*args)` on a thread; `then(result, None)`, or `then(None, error)`, follows on the loop."""
        self._waiting.append((then, work, args))
        self._start_next()

    def _start_next(self) -> None:
        while self._waiting and self._free > 0:
            then, work, args = self._waiting.popleft()
            try:
                threading.Thread(target=self._run, args=(then, work, args), name=work.__name__, daemon=True).start()
            except RuntimeError as error:  # the system gives no more threads
                self._loop.post(then, None, BlazarError(f"{error}; raise the limit on processes (`ulimit -u`)"))
            else:
                self._free -= 1

    def _freed(self) -> None:
        self._free += 1
        self._start_next()

    def _run(self, then: Then, work: Callable[..., Any], args: tuple[Any, ...]) -> None:
        try:
            result = work(*args)
        except BlazarError as error:
            self._loop.post(then, None, error)
        except Exception as error:
            log.exception("%s failed", work.__name__)
            self._loop.post(then, None, BlazarError(f"internal error: {error}; see the daemon log"))
        else:
            self._loop.post(then, result, None)
        finally:
            close_database()  # a connection belongs to its thread, and would outlive it
            self._loop.post(self._freed)
