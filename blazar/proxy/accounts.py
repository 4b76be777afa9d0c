"""What each API key has used, against its limits.

Requests and tokens a minute slide: what counts now is what happened in the last WINDOW seconds of CLOCK_MONOTONIC.
Tokens a day begin anew at midnight UTC. Tokens are reserved when an attempt begins, as an estimate, and settled with
the real count when it ends; the estimate counts until then, the real count from then on.
"""

import time
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from blazar.errors import DailyQuotaExceeded, QuotaExceeded
from blazar.units import format_duration

WINDOW = 60
STEPS = 10
"""Of a second, in which a window counts: what happens within one step leaves together, at most 0.1 s late."""
SPAN = WINDOW * STEPS
"""Steps that a window counts besides the one under way."""
DAY = 86400
COUNTS = ("requests", "prompt_tokens", "completion_tokens")
"""What is reported of an API key, by day."""


@dataclass(frozen=True)
class Limits:
    """What an API key may do; None is no limit."""

    rpm: int | None = None
    tpm: int | None = None
    daily_tokens: int | None = None
    max_concurrent: int | None = None


NO_LIMITS = Limits()


class SlidingWindow:
    """The sum of the amounts of the last WINDOW seconds, with a place for each step, so that it does not grow."""

    def __init__(self) -> None:
        self._amounts = array("q")
        """By step, round and round; there are none before the first amount."""
        self._first = self._last = 0
        """The steps between which amounts stand."""
        self._total = 0

    def add(self, now: float, amount: int) -> None:
        step = int(now * STEPS)
        if step <= self._last:
            step = self._last
        else:
            self._drop(step - SPAN)
        if not self._amounts:
            self._amounts = array("q", bytes(8 * (SPAN + 1)))
        self._amounts[step % len(self._amounts)] += amount
        self._last = step
        self._total += amount

    def total(self, now: float) -> int:
        self._drop(int(now * STEPS) - SPAN)
        return self._total

    def wait(self, now: float, most: int) -> float:
        """Seconds until the sum is no more than `most`."""
        left = self.total(now)
        for step in range(self._first, self._last + 1):
            if left <= most:
                break
            left -= self._amounts[step % len(self._amounts)]
            if left <= most:
                return max(0.0, (step + SPAN + 1) / STEPS - now)
        return 0.0

    def _drop(self, oldest: int) -> None:
        """Take out what stands before step `oldest`."""
        while self._total and self._first < oldest:
            place = self._first % len(self._amounts)
            self._total -= self._amounts[place]
            self._amounts[place] = 0
            self._first += 1
        if self._first < oldest:
            self._first = oldest


class Account:
    """The counts of one API key."""

    def __init__(self, name: str, limits: Limits, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self.name = name
        self._limits = limits
        self._clock = clock
        self._wall = wall
        self._requests = SlidingWindow()
        self._tokens = SlidingWindow()
        self._reserved = 0
        self._concurrent = 0
        self._day = ""
        self._today = 0
        self._day_ends = 0.0
        self._news: dict[str, list[int]] = {}
        """COUNTS by day that were not taken yet."""
        self._newest = [0, 0, 0]
        """Those of this day."""

    def enter(self, tokens: int) -> None:
        """Count a request that expects to use so many tokens; `leave` follows when it has ended.

        Raises QuotaExceeded, and then nothing was counted. A request that is larger than a whole limit is let in when
        nothing else counts against it.
        """
        now, limits = self._clock(), self._limits
        if limits.max_concurrent is not None and self._concurrent >= limits.max_concurrent:
            raise self._refusal("max_concurrent", f"{self._concurrent} under way", 1.0)
        if limits.rpm is not None and (used := self._requests.total(now)) >= limits.rpm:
            raise self._refusal("rpm", f"had {used} in the last minute", self._requests.wait(now, limits.rpm - 1))
        if limits.tpm is not None:
            room = limits.tpm - min(tokens, limits.tpm) - self._reserved
            if (used := self._tokens.total(now)) > room:
                wait = self._tokens.wait(now, room) if room >= 0 else 0.0  # else when others settle, which may be soon
                raise self._refusal("tpm", f"used or reserved {used + self._reserved} in the last minute", wait)
        if limits.daily_tokens is not None:
            used = self.today() + self._reserved
            if used + min(tokens, limits.daily_tokens) > limits.daily_tokens:
                raise self._refusal("daily_tokens", f"used or reserved {used} today", DAY - self._wall() % DAY)
        self._requests.add(now, 1)
        self._concurrent += 1
        self._turn()
        self._newest[0] += 1

    def leave(self) -> None:
        self._concurrent -= 1

    def reserve(self, tokens: int) -> None:
        """Let an attempt's estimate count; `settle` follows."""
        self._reserved += tokens

    def settle(self, reserved: int, prompt: int, completion: int) -> None:
        """Let the real count of an attempt count in place of what was reserved for it."""
        self._reserved -= reserved
        used = prompt + completion
        if used:
            self._tokens.add(self._clock(), used)
            self._turn()
            self._today += used
            self._newest[1] += prompt
            self._newest[2] += completion

    def today(self) -> int:
        """Tokens settled since midnight UTC."""
        self._turn()
        return self._today

    def restore(self, day: str, tokens: int) -> None:
        """Take over what an earlier gateway worker counted on that day."""
        self._turn()
        if day == self._day:
            self._today = max(self._today, tokens)

    def take_news(self) -> list[dict[str, Any]]:
        """What was counted since the last call, a row for each day."""
        news, self._newest = self._news, [0, 0, 0]
        self._news = {self._day: self._newest}
        return [{"key": self.name, "day": day, **dict(zip(COUNTS, counts, strict=True))}
                for day, counts in news.items() if any(counts)]

    def _turn(self) -> None:
        """Begin a new day when it is time."""
        now = self._wall()
        if not self._day_ends - DAY <= now < self._day_ends:
            self._day, self._today = datetime.fromtimestamp(now, UTC).date().isoformat(), 0
            self._day_ends = (now // DAY + 1) * DAY
            self._newest = self._news.setdefault(self._day, [0, 0, 0])

    def _refusal(self, limit: str, used: str, wait: float) -> QuotaExceeded:
        kind = DailyQuotaExceeded if limit == "daily_tokens" else QuotaExceeded
        wait = max(1.0, wait)
        return kind(key_name=self.name, used=used, limit=limit, allowed=getattr(self._limits, limit),
                    wait=format_duration(wait), retry_after=wait)


class Accounts:
    """The accounts by the name of their API key."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._wall = wall
        self._accounts: dict[str, Account] = {}
        self._told: tuple[str, Mapping[str, int]] = ("", {})

    def open(self, limits: Iterable[tuple[str, Limits]]) -> None:
        """Begin to count for these API keys."""
        for name, limit in limits:
            self._accounts[name] = Account(name, limit, self._clock, self._wall)
        self._restore()

    def get(self, name: str) -> Account:
        return self._accounts[name]

    def restore(self, day: str, tokens: Mapping[str, int]) -> None:
        """Take over the tokens of that day, by the name of the API key, which the supervisor knows of."""
        self._told = (day, tokens)
        self._restore()

    def take_news(self) -> list[dict[str, Any]]:
        """What was counted since the last call: key, day, and COUNTS."""
        return [row for account in self._accounts.values() for row in account.take_news()]

    def _restore(self) -> None:
        day, tokens = self._told
        for name, account in self._accounts.items():
            account.restore(day, tokens.get(name, 0))
