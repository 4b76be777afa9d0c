"""`Usage`: what API keys have used, as the gateway reports it: the day's tokens and the last minute at hand, everything
in the database.

A gateway worker that starts is told both, so limits of a minute outlive the worker, and those of a day the daemon too.
"""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from blazar.errors import BlazarError
from blazar.models.api_usage import COUNTS, NAMES, ApiUsage
from blazar.supervisor.minutes import Minutes
from blazar.supervisor.pool import Pool

log = logging.getLogger(__name__)

RETRY = 2.0
"""Seconds after which what could not be written is tried again."""


class Usage:
    """Used on the loop's thread, except for `flush`."""

    def __init__(self, pool: Pool, later: Callable[..., Any], clock: Callable[[], float] = time.monotonic,
                 wall: Callable[[], float] = time.time) -> None:
        """`later(seconds, call)` is the run loop's."""
        self._pool = pool
        self._later = later
        self._wall = wall
        self._minutes = Minutes(clock)
        self._day = ""
        self._tokens: dict[str, int] = {}
        self._pending: dict[tuple[str, ...], dict[str, Any]] = {}
        """What is not in the database yet: a row for each key, day and model, however long that lasts."""
        self._one_gatherer = threading.Lock()
        self._writing = False
        """Whether a thread is about to write, or a timer runs until the next one is."""
        self._one_writer = threading.Lock()
        self._trouble = ""
        """Why the last attempt to write failed."""

    def read(self) -> None:
        """Once, at boot: the tokens of this day."""
        self._day = self._today()
        self._tokens = ApiUsage.of_day(self._day)

    def today(self) -> dict[str, Any]:
        """What a worker is told when it starts: the day, its tokens by API key, and the steps of the last minute."""
        self._turn()
        return {"day": self._day, "tokens": self._tokens, "minutes": self._minutes.told()}

    def add(self, rows: list[dict[str, Any]]) -> None:
        """Take down a worker's report: rows of key, day, model, the counts to add, and their steps."""
        rows = [{**{name: str(row[name]) for name in NAMES}, **{name: int(row[name]) for name in COUNTS},
                 "steps": [[int(number) for number in step] for step in row["steps"]]} for row in rows]
        self._turn()
        for row in rows:
            self._minutes.add(row)
            if row["day"] == self._day:
                used = row["prompt_tokens"] + row["completion_tokens"]
                self._tokens[row["key"]] = self._tokens.get(row["key"], 0) + used
        if rows:
            self._gather(rows)
            self._write()

    def _write(self) -> None:
        """Write on a thread; one at a time, lest a locked database takes them all."""
        if not self._writing:
            self._writing = True
            self._pool.submit(self._written, self.flush)

    def _written(self, _: Any, error: BlazarError | None) -> None:
        self._writing = False
        former, self._trouble = self._trouble, str(error or "")
        if error is not None:
            if self._trouble != former:
                log.warning("the use of API keys could not be noted, and will be later: %s", error)
            self._writing = True
            self._later(RETRY, self._try_again)
            return
        if former:
            log.info("the use of API keys is noted again")
        if self._pending:
            self._write()

    def _try_again(self) -> None:
        self._writing = False
        self._write()

    def _turn(self) -> None:
        if (day := self._today()) != self._day:
            self._day, self._tokens = day, {}

    def _today(self) -> str:
        return datetime.fromtimestamp(self._wall(), UTC).date().isoformat()

    def flush(self) -> None:
        """Write what is not in the database yet; from any thread, and once more before the daemon ends."""
        with self._one_writer:
            with self._one_gatherer:
                taken, self._pending = self._pending, {}
            try:
                if taken:
                    ApiUsage.add(taken.values())
            except BlazarError:
                self._gather(taken.values())
                raise

    def _gather(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add rows to what is not in the database yet; from any thread."""
        with self._one_gatherer:
            for row in rows:
                names = {name: row[name] for name in NAMES}
                here = self._pending.setdefault((*names.values(),), {**names, **dict.fromkeys(COUNTS, 0)})
                for name in COUNTS:
                    here[name] += row[name]
