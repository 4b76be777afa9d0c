"""What each API key has used, against its limits.

Requests and tokens a minute slide: what counts now is what happened in the last WINDOW seconds of CLOCK_MONOTONIC.
Tokens a day begin anew at midnight UTC. A request's tokens are reserved, as an estimate, in the moment in which it is
let in, and until it has ended; what its attempts have really used counts from when each of them ends.

What is counted is told to the supervisor as rows: the key, day and model, the counts, and the steps of the window in
which they came. The supervisor tells them to the next worker, and to others that run at the same time.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from blazar.errors import DailyQuotaExceeded, QuotaExceeded
from blazar.proxy.sliding import SPAN, WINDOW, SlidingWindow, step_at
from blazar.units import format_duration

DAY = 86400
REMEMBERED = 3
"""Days besides this one whose tokens are remembered."""


@dataclass(frozen=True)
class Limits:
    """What an API key may do; None is no limit. `weight` is its share of a busy model, against that of others."""

    rpm: int | None = None
    tpm: int | None = None
    daily_tokens: int | None = None
    max_concurrent: int | None = None
    weight: float = 1.0

    @cached_property
    def has_rates(self) -> bool:
        """Whether there is anything that an answer can tell as used up by and by."""
        return (self.rpm, self.tpm, self.daily_tokens) != (None, None, None)


NO_LIMITS = Limits()


class Tally:
    """What one API key has used of one model on one day, and was not told yet."""

    __slots__ = ("_latest", "completion", "day", "model", "prompt", "requests", "steps")

    def __init__(self, day: str, model: str) -> None:
        self.day = day
        self.model = model
        self.requests = self.prompt = self.completion = 0
        self.steps: list[list[int]] = []
        """Step of the window, requests, tokens."""
        self._latest = [-1, 0, 0]
        """The last of them."""

    def add_request(self, step: int) -> None:
        self.requests += 1
        latest = self._latest
        if latest[0] != step:
            latest = self._begin(step)
        latest[1] += 1

    def add_tokens(self, step: int, prompt: int, completion: int) -> None:
        self.prompt += prompt
        self.completion += completion
        latest = self._latest
        if latest[0] != step:
            latest = self._begin(step)
        latest[2] += prompt + completion

    def _begin(self, step: int) -> list[int]:
        self._latest = [step, 0, 0]
        self.steps.append(self._latest)
        if len(self.steps) > SPAN:  # no supervisor has taken them for a minute, in which they have passed
            del self.steps[0]
        return self._latest

    def row(self, key: str) -> dict[str, Any]:
        return {"key": key, "day": self.day, "model": self.model, "requests": self.requests,
                "prompt_tokens": self.prompt, "completion_tokens": self.completion, "steps": self.steps}


class Account:
    """The counts of one API key."""

    def __init__(self, name: str, limits: Limits, clock: Callable[[], float], wall: Callable[[], float]) -> None:
        self.name = name
        self.limits = limits
        self._clock = clock
        self._wall = wall
        self._requests = SlidingWindow()
        self._tokens = SlidingWindow()
        self._reserved = 0
        self._concurrent = 0
        self._day = ""
        self._today = 0
        self._days: dict[str, int] = {}
        """The tokens of days before, to which a clock that is set comes again."""
        self._day_ends = 0.0
        self._news: dict[tuple[str, str], Tally] = {}
        """By day and model, what was not taken yet."""
        self._latest = Tally("", "")
        """The one that was last added to."""

    @property
    def weight(self) -> float:
        """Its share of a busy model, against that of others."""
        return self.limits.weight

    def enter(self, tokens: int, model: str = "") -> None:
        """Count a request and reserve the tokens that it may use; `leave` follows when it has ended.

        Raises QuotaExceeded, and then nothing was counted. A request that is larger than a whole limit is let in when
        nothing else counts against it.
        """
        now, limits = self._clock(), self.limits
        self._turn()
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
            used = self._today + self._reserved
            if used + min(tokens, limits.daily_tokens) > limits.daily_tokens:
                raise self._refusal("daily_tokens", f"used or reserved {used} today", DAY - self._wall() % DAY)
        step = step_at(now)
        self._requests.add(step, 1)
        self._concurrent += 1
        self._reserved += tokens
        self._tally(model).add_request(step)

    def leave(self, tokens: int) -> None:
        """A request that was let in with so many tokens reserved has ended."""
        self._concurrent -= 1
        self._reserved -= tokens

    def spend(self, prompt: int, completion: int, model: str = "") -> None:
        """Count what an attempt has really used."""
        used = prompt + completion
        if used:
            step = step_at(self._clock())
            self._turn()
            self._tokens.add(step, used)
            self._tally(model).add_tokens(step, prompt, completion)
            self._today += used

    def today(self) -> int:
        """Tokens settled since midnight UTC."""
        self._turn()
        return self._today

    def requests_reset(self) -> float:
        """Seconds until all of it is there again."""
        return self._requests.clears(self._clock())

    def left(self) -> tuple[int, int, int, bool]:
        """What is left, what is reserved taken off: of `rpm`, where there is that limit; and of `tpm` or
        `daily_tokens`, where there is either: the one that is nearer its end, its rest, whether it is the day's."""
        limits, now, taken = self.limits, self._clock(), self._reserved
        requests = limit = tokens = 0
        if limits.rpm is not None:
            requests = limits.rpm - self._requests.total(now)
        of_day = limits.tpm is None
        if limits.tpm is not None:
            limit, tokens = limits.tpm, limits.tpm - self._tokens.total(now) - taken
        if limits.daily_tokens is not None:
            self._turn()
            today = limits.daily_tokens - self._today - taken
            if of_day or today < tokens:
                limit, tokens, of_day = limits.daily_tokens, today, True
        return (requests if requests > 0 else 0), limit, (tokens if tokens > 0 else 0), of_day

    def tokens_reset(self, of_day: bool) -> float:
        """Seconds until all of it is there again; what is reserved now is taken to be used now."""
        if of_day:
            return DAY - self._wall() % DAY
        return float(WINDOW) if self._reserved else self._tokens.clears(self._clock())

    def restore(self, day: str, tokens: int) -> None:
        """Take over what was counted on that day before this worker began."""
        self._turn()
        if day == self._day:
            self._today = max(self._today, tokens)

    def fill(self, steps: Iterable[Iterable[int]]) -> None:
        """Let what others have counted in the last minute count here too: step, requests, tokens."""
        for step, requests, tokens in steps:
            self._requests.add(step, requests)
            self._tokens.add(step, tokens)

    def hear(self, row: Mapping[str, Any]) -> None:
        """Let what another worker counts meanwhile count here too."""
        self.fill(row["steps"])
        self._turn()
        if row["day"] == self._day:
            self._today += row["prompt_tokens"] + row["completion_tokens"]

    def take_news(self) -> list[dict[str, Any]]:
        """What was counted since the last call, a row for each day and model."""
        news, self._news, self._latest = self._news, {}, Tally("", "")
        return [tally.row(self.name) for tally in news.values()]

    def _tally(self, model: str) -> Tally:
        """Where what is used of this model on this day is added."""
        latest = self._latest
        if latest.model != model or latest.day != self._day:
            here = self._day, model
            latest = self._latest = self._news.setdefault(here, Tally(*here))
        return latest

    def _turn(self) -> None:
        """Begin a new day when it is time."""
        now = self._wall()
        if not self._day_ends - DAY <= now < self._day_ends:
            self._days[self._day] = self._today
            self._day = datetime.fromtimestamp(now, UTC).date().isoformat()
            self._today = self._days.pop(self._day, 0)
            while len(self._days) > REMEMBERED:
                del self._days[min(self._days)]
            self._day_ends = (now // DAY + 1) * DAY

    def _refusal(self, limit: str, used: str, wait: float) -> QuotaExceeded:
        kind = DailyQuotaExceeded if limit == "daily_tokens" else QuotaExceeded
        wait = max(1.0, wait)
        return kind(key_name=self.name, used=used, limit=limit, allowed=getattr(self.limits, limit),
                    wait=format_duration(wait), retry_after=wait)


class Accounts:
    """The accounts by the name of their API key. One whose key is gone stays, since requests may still be under way."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, wall: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._wall = wall
        self._accounts: dict[str, Account] = {}
        self._told: tuple[str, Mapping[str, int]] = ("", {})
        self._minutes: Mapping[str, Iterable[Iterable[int]]] | None = None
        """What earlier workers had counted in their last minute, as it was told when this one began."""

    def open(self, limits: Iterable[tuple[str, Limits]]) -> None:
        """Begin to count for these API keys; those that are known already get these limits."""
        for name, limit in limits:
            account = self._accounts.get(name)
            if account is not None:
                account.limits = limit
                continue
            account = self._accounts[name] = Account(name, limit, self._clock, self._wall)
            account.fill((self._minutes or {}).get(name, ()))
            self._restore(account)

    def get(self, name: str) -> Account:
        return self._accounts[name]

    def restore(self, day: str, tokens: Mapping[str, int],
                minutes: Mapping[str, Iterable[Iterable[int]]] | None = None) -> None:
        """Take over what the supervisor knows: by the name of the API key the tokens of that day, and the steps of the
        last minute. Those of a later greeting are our own."""
        self._told = (day, tokens)
        if self._minutes is None:
            self._minutes = minutes or {}
            for name, account in self._accounts.items():
                account.fill(self._minutes.get(name, ()))
        for account in self._accounts.values():
            self._restore(account)

    def hear(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take down what another worker counts while this one runs."""
        for row in rows:
            if row["key"] in self._accounts:
                self._accounts[row["key"]].hear(row)

    def take_news(self) -> list[dict[str, Any]]:
        """What was counted since the last call, a row for each API key, day and model."""
        return [row for account in self._accounts.values() for row in account.take_news()]

    def _restore(self, account: Account) -> None:
        day, tokens = self._told
        account.restore(day, tokens.get(account.name, 0))
