"""`Usage`: what API keys have used, as the gateway reports it: the day's tokens at hand, everything in the database.

A gateway worker that starts is told the day's tokens, so a limit of a day outlives the worker, and the daemon.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from blazar.errors import BlazarError
from blazar.models.api_usage import COUNTS, ApiUsage
from blazar.supervisor.pool import Pool

log = logging.getLogger(__name__)


class Usage:
    """Used on the loop's thread, except for `flush`."""

    def __init__(self, pool: Pool, wall: Callable[[], float] = time.time) -> None:
        self._pool = pool
        self._wall = wall
        self._day = ""
        self._tokens: dict[str, int] = {}
        self._pending: deque[dict[str, Any]] = deque()
        """What is not in the database yet."""
        self._one_writer = threading.Lock()

    def read(self) -> None:
        """Once, at boot: the tokens of this day."""
        self._day = self._today()
        self._tokens = ApiUsage.of_day(self._day)

    def today(self) -> dict[str, Any]:
        """What a worker is told when it starts: the day, and its tokens by API key."""
        self._turn()
        return {"day": self._day, "tokens": self._tokens}

    def add(self, rows: list[dict[str, Any]]) -> None:
        """Take down a worker's report: rows of key, day, and the counts to add."""
        rows = [{"key": str(row["key"]), "day": str(row["day"]), **{name: int(row[name]) for name in COUNTS}}
                for row in rows]
        self._turn()
        for row in rows:
            if row["day"] == self._day:
                used = row["prompt_tokens"] + row["completion_tokens"]
                self._tokens[row["key"]] = self._tokens.get(row["key"], 0) + used
        if rows:
            self._pending.extend(rows)
            self._pool.submit(_written, self.flush)

    def _turn(self) -> None:
        if (day := self._today()) != self._day:
            self._day, self._tokens = day, {}

    def _today(self) -> str:
        return datetime.fromtimestamp(self._wall(), UTC).date().isoformat()

    def flush(self) -> None:
        """Write what is not in the database yet; from any thread, and once more before the daemon ends."""
        with self._one_writer:
            rows = []
            while self._pending:
                rows.append(self._pending.popleft())
            try:
                if rows:
                    ApiUsage.add(rows)
            except BlazarError:
                self._pending.extendleft(reversed(rows))
                raise


def _written(_: Any, error: BlazarError | None) -> None:
    if error is not None:
        log.warning("the use of API keys could not be noted, and will be with the next: %s", error)
