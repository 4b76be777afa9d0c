"""What each API key has used, against its limits.

Requests and tokens a minute slide: what counts now is what happened in the last WINDOW seconds of CLOCK_MONOTONIC.
Tokens a day begin anew at midnight UTC. A request's tokens are reserved, as an estimate, in the moment in which it is
let in, and until it has ended; what its attempts have really used counts from when each of them ends.

What is counted is told to the supervisor as rows: the key, day and model, the counts, and the steps of the window in
which they came. The supervisor tells them to the next worker, and to others that run at the same time.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, Final

from blazar.errors import DailyQuotaExceeded, QuotaExceeded
from blazar.proxy.limits import DAY, Left, Limits, to_midnight
from blazar.proxy.rates import RateHeaders
from blazar.proxy.sliding import STEPS, WINDOW, SlidingWindow, step_at
from blazar.proxy.uses import Use
from blazar.telemetry.metrics import Count, Counter
from blazar.units import format_duration

ENDLESS: Final = 1 << 62
"""Stands for a limit that there is not."""
REMEMBERED: Final = 3
"""Days besides this one whose tokens are remembered."""

Counts = Callable[[str, str], tuple[Count, Count]]
"""Gives the numbers to which tokens of prompts and of answers are added, by key and model."""


def _apart(key: str, model: str) -> tuple[Count, Count]:
    """Numbers that nobody else looks at."""
    return Count(), Count()


class Account:
    """The counts of one API key.

    Within a step nothing leaves the windows, so meanwhile a few numbers that are kept ready stand for all that is left.
    `_settle` brings what they have counted to where it stays, and `_reckon` makes them anew.
    """

    def __init__(self, name: str, limits: Limits, clock: Callable[[], float], wall: Callable[[], float],
                 counts: Counts = _apart) -> None:
        self.name = name
        self._clock = clock
        self._wall = wall
        self._counts = counts
        self._requests = SlidingWindow()
        self._tokens = SlidingWindow()
        self._today = 0
        self._reserved = 0
        self._free = ENDLESS
        """Requests that may come before others have ended."""
        self._left = self._settled = 0
        """Requests that are left of this minute's; and what that was when they were settled last."""
        self._room = self._bound = 0
        """Tokens that are left of the nearer limit; and what that would be without those that are reserved, and spent
        since they were settled."""
        self._of_day = False
        """The nearer limit is the day's."""
        self._spent = 0
        """Tokens that were not settled yet."""
        self._step = -1
        """The step of the windows that is under way."""
        self._until = 0.0
        """When it is over, or the day is."""
        self._day = ""
        self._days: dict[str, int] = {}
        """The tokens of days before, to which a clock that is set comes again."""
        self._day_ends = 0.0
        self._uses: dict[str, Use] = {}
        """By model."""
        self._latest: Use | None = None
        """The one that was last added to, in this step and on this day."""
        self._most = ENDLESS
        self.bind(limits)

    def bind(self, limits: Limits) -> None:
        """From now on these are its limits."""
        self._settle()
        under_way = self._most - self._free
        self.limits = limits
        self.rates = RateHeaders(limits, self._wall) if limits.has_rates else None
        """How its answers tell what is left."""
        self._rpm = ENDLESS if limits.rpm is None else limits.rpm
        self._tpm = ENDLESS if limits.tpm is None else limits.tpm
        self._daily = ENDLESS if limits.daily_tokens is None else limits.daily_tokens
        self._most = ENDLESS if limits.max_concurrent is None else limits.max_concurrent
        self._free = self._most - under_way
        self._reckon()

    @property
    def weight(self) -> float:
        """Its share of a busy model, against that of others."""
        return self.limits.weight

    @property
    def reserved(self) -> int:
        """Tokens that requests under way may use."""
        return self._bound - self._room - self._spent

    def enter(self, tokens: int, model: str = "") -> Left:
        """Count a request and reserve the tokens that it may use; `leave` follows when it has ended. What is left.

        Raises QuotaExceeded, and then nothing was counted. A request that is larger than a whole limit is let in when
        nothing else counts against it.
        """
        now = self._clock()
        if now >= self._until:
            self._go_on(now)
        left, room, free = self._left - 1, self._room - tokens, self._free - 1
        if left < 0 or room < 0 or free < 0:
            self._check(tokens)
            left, room = self._left - 1, self._room - tokens
        self._left, self._room, self._free = left, room, free
        use = self._latest
        if use is None or use.model != model:
            use = self._use(model)
        use.requests += 1
        return left, (room if room > 0 else 0), self._of_day

    def leave(self, tokens: int) -> None:
        """A request that was let in with so many tokens reserved has ended."""
        self._free += 1
        self._room += tokens

    def spend(self, prompt: int, completion: int, model: str = "") -> None:
        """Count what an attempt has really used."""
        used = prompt + completion
        if used:
            now = self._clock()
            if now >= self._until:
                self._go_on(now)
            use = self._latest
            if use is None or use.model != model:
                use = self._use(model)
            use.prompt.n += prompt
            use.completion.n += completion
            self._spent += used
            self._room -= used

    def today(self) -> int:
        """Tokens settled since midnight UTC."""
        self._go_on(self._clock())
        return self._today

    def left(self) -> Left:
        """What is left at this moment."""
        self._go_on(self._clock())
        return max(0, self._left), max(0, self._room), self._of_day

    def headers(self, dialect: str) -> list[tuple[str, str]]:
        """What an answer in this dialect tells of that."""
        if self.rates is None:
            return []
        left, now = self.left(), self._clock()
        # What is reserved now is taken to be used now.
        tokens = float(WINDOW) if self._reserved else self._tokens.clears(now)
        return self.rates.of(left, dialect, (self._requests.clears(now), tokens))

    def restore(self, day: str, tokens: int) -> None:
        """Take over what was counted on that day before this worker began."""
        self._go_on(self._clock())
        if day == self._day:
            self._today = max(self._today, tokens)
            self._reckon()

    def fill(self, steps: Iterable[Iterable[int]]) -> None:
        """Let what others have counted in the last minute count here too: step, requests, tokens."""
        self._go_on(self._clock())
        for step, requests, tokens in steps:
            self._requests.add(step, requests)
            self._tokens.add(step, tokens)
        self._reckon()

    def hear(self, row: Mapping[str, Any]) -> None:
        """Let what another worker counts meanwhile count here too."""
        self.fill(row["steps"])
        if row["day"] == self._day:
            self._today += row["prompt_tokens"] + row["completion_tokens"]
            self._reckon()

    def take_news(self) -> list[dict[str, Any]]:
        """What was counted since the last call, a row for each day and model."""
        self._latest = None
        rows = [{"key": self.name, **row} for use in self._uses.values() for row in use.news()]
        return sorted(rows, key=itemgetter("day"))

    def _use(self, model: str) -> Use:
        """Where what is used of this model is added, until the step is over."""
        use = self._uses.get(model)
        if use is None:
            use = self._uses[model] = Use(model, *self._counts(self.name, model))
        use.begin(self._day, self._step)
        self._latest = use
        return use

    def _go_on(self, now: float) -> None:
        """Let what is counted from now on count in the step of this moment, and on its day."""
        self._settle()
        step = step_at(now)
        if step != self._step:
            self._step = step
            self._requests.move(step)
            self._tokens.move(step)
            self._latest = None
        self._until = min((step + 1) / STEPS, now + self._turn())
        self._reckon()

    def _settle(self) -> None:
        self._requests.sum += self._settled - self._left
        self._settled = self._left
        self._reserved = self.reserved
        spent, self._spent = self._spent, 0
        self._tokens.sum += spent
        self._today += spent
        self._bound -= spent

    def _reckon(self) -> None:
        self._left = self._settled = self._rpm - self._requests.sum
        tokens, today = self._tpm - self._tokens.sum, self._daily - self._today
        self._of_day = today < tokens
        self._bound = min(tokens, today)
        self._room = self._bound - self._reserved

    def _turn(self) -> float:
        """Begin a new day when it is time; the seconds until this one ends."""
        now = self._wall()
        if not self._day_ends - DAY <= now < self._day_ends:
            self._days[self._day] = self._today
            self._day = datetime.fromtimestamp(now, UTC).date().isoformat()
            self._today = self._days.pop(self._day, 0)
            while len(self._days) > REMEMBERED:
                del self._days[min(self._days)]
            self._day_ends = (now // DAY + 1) * DAY
            self._latest = None
        return self._day_ends - now

    def _check(self, tokens: int) -> None:
        """Raises QuotaExceeded when a request that may use so many tokens is not let in."""
        now = self._clock()
        self._go_on(now)
        if self._free <= 0:
            raise self._refusal("max_concurrent", f"{self._most - self._free} under way", 1.0)
        if (used := self._requests.total(now)) >= self._rpm:
            raise self._refusal("rpm", f"had {used} in the last minute", self._requests.wait(now, self._rpm - 1))
        room = self._tpm - min(tokens, self._tpm) - self._reserved
        if (used := self._tokens.total(now)) > room:
            wait = self._tokens.wait(now, room) if room >= 0 else 0.0  # else when others settle, which may be soon
            raise self._refusal("tpm", f"used or reserved {used + self._reserved} in the last minute", wait)
        used = self._today + self._reserved
        if used + min(tokens, self._daily) > self._daily:
            raise self._refusal("daily_tokens", f"used or reserved {used} today", to_midnight(self._wall()))

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
        self.by_name: dict[str, Account] = {}
        self._counts: Counts = _apart
        self._told: tuple[str, Mapping[str, int]] = ("", {})
        self._minutes: Mapping[str, Iterable[Iterable[int]]] | None = None
        """What earlier workers had counted in their last minute, as it was told when this one began."""

    def count_in(self, prompt: Counter, completion: Counter) -> None:
        """From now on tokens that API keys use of a model are also counted there, by key and model."""
        self._counts = lambda key, model: (prompt.count(key, model), completion.count(key, model))

    def open(self, limits: Iterable[tuple[str, Limits]]) -> None:
        """Begin to count for these API keys; those that are known already get these limits."""
        for name, limit in limits:
            account = self.by_name.get(name)
            if account is not None:
                account.bind(limit)
                continue
            account = self.by_name[name] = Account(name, limit, self._clock, self._wall, self._counts_of)
            account.fill((self._minutes or {}).get(name, ()))
            self._restore(account)

    def get(self, name: str) -> Account:
        return self.by_name[name]

    def restore(self, day: str, tokens: Mapping[str, int],
                minutes: Mapping[str, Iterable[Iterable[int]]] | None = None) -> None:
        """Take over what the supervisor knows: by the name of the API key the tokens of that day, and the steps of the
        last minute. Those of a later greeting are our own."""
        self._told = (day, tokens)
        if self._minutes is None:
            self._minutes = minutes or {}
            for name, account in self.by_name.items():
                account.fill(self._minutes.get(name, ()))
        for account in self.by_name.values():
            self._restore(account)

    def hear(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Take down what another worker counts while this one runs."""
        for row in rows:
            if row["key"] in self.by_name:
                self.by_name[row["key"]].hear(row)

    def take_news(self) -> list[dict[str, Any]]:
        """What was counted since the last call, a row for each API key, day and model."""
        return [row for account in self.by_name.values() for row in account.take_news()]

    def _counts_of(self, key: str, model: str) -> tuple[Count, Count]:
        return self._counts(key, model)

    def _restore(self, account: Account) -> None:
        day, tokens = self._told
        account.restore(day, tokens.get(account.name, 0))
