"""Threads for slow work; what they find comes back to the run loop as a posted call."""

import logging
import threading
from collections.abc import Callable
from typing import Any

from blazar.errors import BlazarError
from blazar.models.base import close_database
from blazar.supervisor.loop import Loop

log = logging.getLogger(__name__)

Then = Callable[[Any, BlazarError | None], None]


class Pool:
    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def submit(self, then: Then, work: Callable[..., Any], *args: Any) -> None:
        """Run `work(*args)` on a thread; `then(result, None)`, or `then(None, error)`, follows on the loop."""
        threading.Thread(target=self._run, args=(then, work, args), name=work.__name__, daemon=True).start()

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
