"""`Runner`: works through batches in the background, one request at a time, while nobody waits for the same model.

Whoever has batches is a `Source`. The runner asks it for the next request that has no answer yet, has that answered,
and hands the answer back; the source keeps it. What is killed in between is asked again after the next start, so that
each request has one answer. Of several gateways on one data dir only the one that holds the lock works.
"""

import contextlib
import fcntl
import logging
import os
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from blazar.errors import BlazarError, DatabaseLocked, SupervisorGone
from blazar.proxy import greens
from blazar.proxy.batches.task import Outcome, Question, Source, Task
from blazar.proxy.directory import Directory
from blazar.proxy.ledger import Ledger

IDLE = 15.0
"""Seconds between looks while there seems to be nothing to do; `wake` makes it look at once."""
PAUSE = 0.2
"""Seconds between looks at a model that is in use, and after a failure."""

log = logging.getLogger("blazar.proxy")


class Runner:
    """`lock` is the file of the lock; `stopping` tells that nothing more is to be begun."""

    def __init__(self, sources: Iterable[Source], directory: Directory, ledger: Ledger, lock: Path,
                 stopping: Callable[[], bool]) -> None:
        self._sources = list(sources)
        self._directory = directory
        self._ledger = ledger
        self._lock = lock
        self._stopping = stopping
        self._news = threading.Event()
        self._held = -1
        """Descriptor of the lock."""
        self._resting: dict[str, float] = {}
        """Owners whose limits are reached, and until when."""

    def start(self, ask: Callable[[Question], Outcome]) -> None:
        """Begin, with `Inner.ask` to have questions answered."""
        greens.spawn(self._work, ask)

    def wake(self) -> None:
        """There is a new batch, or one was cancelled."""
        self._news.set()

    def rested(self) -> None:
        """The limits of API keys may be others now: whoever has reached one is tried again."""
        self._resting.clear()
        self.wake()

    def _work(self, ask: Callable[[Question], Outcome]) -> None:
        while not self._locked():
            greens.sleep(IDLE)
        while not self._stopping():
            self._news.clear()
            try:
                busy = [self._turn(source, ask) for source in self._sources]
            except (SupervisorGone, DatabaseLocked):
                greens.sleep(10 * PAUSE)
                continue
            except Exception as error:
                log.warning("the work on batches failed: %s", error,
                            exc_info=None if isinstance(error, BlazarError) else error)
                greens.sleep(IDLE)
                continue
            if not any(busy):
                self._news.wait(self._shortest_rest())
        os.close(self._held)  # whoever takes over from us goes on at once

    def _turn(self, source: Source, ask: Callable[[Question], Outcome]) -> bool:
        """Have one request of `source` answered; whether there was one."""
        task = source.next(self._now_resting())
        if task is None:
            return False
        while self.in_use(task.model) and not self._stopping():
            greens.sleep(PAUSE)
        if self._stopping():
            return False
        outcome = ask(task.question)
        if outcome.again is not None:
            self._resting[task.question.owner] = self._ledger.now() + outcome.again
            return True
        while not self._kept(task, outcome):
            greens.sleep(PAUSE)
        return True

    def in_use(self, asked: str) -> bool:
        """Whether somebody uses this model, or waits for any model at all."""
        model = None
        with contextlib.suppress(BlazarError):
            model = self._directory.resolve(asked)
        return any(exchange.model == model or exchange.endpoint is None for exchange in self._ledger.exchanges())

    @staticmethod
    def _kept(task: Task, outcome: Outcome) -> bool:
        try:
            task.answered(outcome)
        except (SupervisorGone, DatabaseLocked):
            return False
        return True

    def _now_resting(self) -> frozenset[str]:
        now = self._ledger.now()
        self._resting = {owner: until for owner, until in self._resting.items() if until > now}
        return frozenset(self._resting)

    def _shortest_rest(self) -> float:
        now = self._ledger.now()
        return max(PAUSE, min([IDLE, *(until - now for until in self._resting.values())]))

    def _locked(self) -> bool:
        """Take the lock, which the system gives back when this process ends, however it does."""
        try:
            descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError:
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return False
        self._held = descriptor  # the system gives it back too, when the process ends
        return True
