import random
from datetime import UTC, datetime

import pytest

from blazar.errors import DailyQuotaExceeded, QuotaExceeded
from blazar.proxy.accounts import Account, Accounts
from blazar.proxy.limits import DAY, Limits
from blazar.proxy.sliding import STEPS, WINDOW
from blazar.supervisor.usage import Usage

MIDNIGHT = 20000.0 * DAY


class Clock:
    def __init__(self, now=1000.0):
        self.now = now

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def account(clock, wall=None, **limits):
    return Account("ann", Limits(**limits), clock, wall or Clock(MIDNIGHT))


def refusal(account, tokens=0):
    with pytest.raises(QuotaExceeded) as raised:
        account.enter(tokens)
    return raised.value


# -- each limit ------------------------------------------------------------------------------------------


def test_requests_a_minute(clock):
    ann = account(clock, rpm=2)
    for _ in range(2):
        ann.enter(0)
        ann.leave(0)
        clock.now += 20
    refused = refusal(ann)
    assert refused.limit == "rpm" and 20 <= refused.retry_after <= 20.2
    assert "rpm = 2" in str(refused) and "had 2 in the last minute" in str(refused) and "'ann'" in str(refused)
    clock.now += refused.retry_after
    ann.enter(0)
    assert refusal(ann).limit == "rpm"


def test_a_refused_request_is_not_counted(clock):
    ann = account(clock, rpm=1, max_concurrent=2)
    ann.enter(0)
    for _ in range(5):
        refusal(ann)
    clock.now += 61
    ann.enter(0)
    assert refusal(ann).limit == "max_concurrent"


def test_requests_at_the_same_time(clock):
    ann = account(clock, max_concurrent=2)
    ann.enter(0)
    ann.enter(0)
    assert (refusal(ann).limit, refusal(ann).retry_after) == ("max_concurrent", 1.0)
    ann.leave(0)
    ann.enter(0)


def test_tokens_a_minute_are_reserved_until_the_request_has_ended(clock):
    ann = account(clock, tpm=100)
    ann.enter(60)
    assert refusal(ann, 41).limit == "tpm"
    ann.enter(40)
    assert refusal(ann, 1).limit == "tpm"
    ann.leave(40)
    ann.spend(3, 7)
    assert refusal(ann, 31).limit == "tpm", "another attempt may follow"
    ann.leave(60)
    assert refusal(ann, 91).limit == "tpm"
    ann.enter(90)
    ann.leave(90)
    clock.now += 61
    ann.enter(100)


def test_the_wait_for_tokens_is_long_enough(clock):
    ann = account(clock, tpm=100)
    for used in (50, 30, 20):
        ann.spend(used, 0)
        clock.now += 10
    refused = refusal(ann, 60)
    clock.now += refused.retry_after
    ann.enter(60)


def test_a_request_larger_than_the_limit_goes_alone(clock):
    ann = account(clock, tpm=100, daily_tokens=200)
    ann.enter(5000)
    assert refusal(ann, 1).limit == "tpm"
    ann.spend(1, 0)
    ann.leave(5000)
    assert refusal(ann, 5000).limit == "tpm"


@pytest.mark.parametrize("steps", [(-120, 120), (120, -120, 120), (-DAY, DAY), (40 * DAY, -40 * DAY),
                                   (-20000 * DAY, 20000 * DAY)])
def test_a_clock_that_is_set_gives_nobody_a_new_day(clock, steps):
    """Whatever other day it shows for a while, the tokens of this one have been used, and no others."""
    wall = Clock(MIDNIGHT + 60)
    ann = account(clock, wall, daily_tokens=100)
    ann.restore("2024-10-04", 70)
    assert ann.today() == 70
    for step in steps:
        wall.now += step
        assert ann.today() == (70 if wall.now // DAY == MIDNIGHT // DAY else 0)
    assert ann.today() == 70 and refusal(ann, 31).limit == "daily_tokens"


def test_of_the_days_that_a_clock_showed_few_are_remembered(clock):
    wall = Clock(MIDNIGHT)
    ann = account(clock, wall)
    for _ in range(50):
        wall.now += DAY
        ann.restore(datetime.fromtimestamp(wall.now, UTC).date().isoformat(), 5)
    assert ann.today() == 5 and len(ann._days) == 3


def test_tokens_a_day_begin_anew_at_midnight_utc(clock):
    wall = Clock(MIDNIGHT + DAY - 90)
    ann = account(clock, wall, daily_tokens=100)
    ann.spend(60, 35)
    ann.enter(5)
    ann.leave(5)
    refused = refusal(ann, 6)
    assert isinstance(refused, DailyQuotaExceeded) and refused.limit == "daily_tokens"
    assert refused.retry_after == 90 and "in 1 m 30 s" in str(refused)
    wall.now += 90
    assert ann.today() == 0
    ann.enter(100)


def test_without_limits_everything_is_counted_and_nothing_refused(clock):
    ann = account(clock)
    for _ in range(1000):
        ann.enter(10**9)
    ann.spend(2, 3)
    assert ann.today() == 5


def test_accounts_are_apart():
    accounts = Accounts(Clock(), Clock(MIDNIGHT))
    accounts.open([("ann", Limits(rpm=1)), ("bob", Limits(rpm=1))])
    accounts.get("ann").enter(0)
    accounts.get("bob").enter(0)
    assert refusal(accounts.get("ann")).limit == "rpm"


# -- any schedule ----------------------------------------------------------------------------------------


class Truth:
    """The same rules, told as plainly as they can be: a list of all that happened and was not lost."""

    def __init__(self, limits):
        self.limits = limits
        self.requests, self.spent, self.under_way, self.reserved = [], [], 0, 0

    @staticmethod
    def used(events, now):
        return sum(amount for at, amount in events if int(now * STEPS) - int(at * STEPS) <= WINDOW * STEPS)

    def today(self, wall):
        return sum(amount for at, amount in self.spent if at // DAY == wall // DAY)

    def allows(self, now, tokens):
        limits = self.limits
        return (self.under_way < limits.max_concurrent and self.used(self.requests, now) < limits.rpm
                and self.used(self.spent, now) + self.reserved + min(tokens, limits.tpm) <= limits.tpm
                and self.today(now) + self.reserved + min(tokens, limits.daily_tokens) <= limits.daily_tokens)


class NoPool:
    def submit(self, then, work, *args):
        """The database is not looked at here."""


class Box:
    """A gateway worker with its requests under way, a supervisor, and what is true."""

    def __init__(self, chance):
        self.chance = chance
        self.clock = Clock(MIDNIGHT + DAY - chance.uniform(0, 600))
        self.limits = self.some_limits()
        self.usage = Usage(NoPool(), None, self.clock, self.clock)
        self.truth = Truth(self.limits)
        self.told = [0, 0]
        """How many of the requests and of the spendings the supervisor knows of."""
        self.noted = [0, 0]
        self.running, self.leaving = [], []
        self.accounts = self.departing = None
        self.start()

    def start(self):
        self.accounts, self.running = Accounts(self.clock, self.clock), []
        steps = [lambda: self.accounts.restore(**self.usage.today()),
                 lambda: self.accounts.open([("ann", self.limits)])]
        for step in steps if self.chance.random() < 0.5 else reversed(steps):
            step()
        self.truth.under_way = self.truth.reserved = 0

    @property
    def ann(self):
        return self.accounts.get("ann")

    def arrive(self):
        now, tokens = self.clock.now, self.chance.choice([0, 10, 200, 1000, 5000])
        allowed = self.truth.allows(now, tokens)
        try:
            self.ann.enter(tokens, self.chance.choice("mn"))
        except QuotaExceeded as error:
            assert not allowed, error
            assert 1 <= error.retry_after <= DAY
            return
        assert allowed
        self.running.append(tokens)
        self.truth.requests.append((now, 1))
        self.truth.reserved, self.truth.under_way = self.truth.reserved + tokens, self.truth.under_way + 1

    def spend(self, account, reserved):
        """Failed, cancelled, finished, or longer than it was to be."""
        used = self.chance.choice([0, 1, reserved // 2, reserved, 2 * reserved])
        account.spend(used // 3, used - used // 3, self.chance.choice("mn"))
        self.truth.spent.append((self.clock.now, used))

    def end(self):
        if self.running:
            reserved = self.running.pop(self.chance.randrange(len(self.running)))
            self.spend(self.ann, reserved)
            self.ann.leave(reserved)
            self.truth.reserved, self.truth.under_way = self.truth.reserved - reserved, self.truth.under_way - 1

    def try_again(self):
        """The first attempt of a request has failed, and perhaps cost something."""
        if self.running:
            self.spend(self.ann, self.running[-1])

    def tell(self):
        rows = self.accounts.take_news()
        self.usage.add(rows)
        self.noted[0] += sum(row["requests"] for row in rows)
        self.noted[1] += sum(row["prompt_tokens"] + row["completion_tokens"] for row in rows)
        self.told = [len(self.truth.requests), len(self.truth.spent)]

    def kill(self):
        """What was not told is lost, and so is what was under way."""
        self.truth.requests[self.told[0]:], self.truth.spent[self.told[1]:] = [], []
        self.start()

    def reload(self):
        """A new worker begins, while the old one ends its requests."""
        self.tell()
        self.departing, self.leaving = self.accounts, self.running
        self.start()

    def end_departing(self):
        if self.leaving:
            reserved = self.leaving.pop()
            self.spend(self.departing.get("ann"), reserved)
            self.departing.get("ann").leave(reserved)
            rows = self.departing.take_news()
            self.tell()
            self.usage.add(rows)
            self.noted[1] += sum(row["prompt_tokens"] + row["completion_tokens"] for row in rows)
            self.accounts.hear(rows)

    def meet_again(self):
        """The control connection broke, and is there again."""
        self.tell()
        self.accounts.restore(**self.usage.today())

    def some_limits(self):
        chance = self.chance
        return Limits(rpm=chance.randint(1, 40), tpm=chance.randint(1, 3000), daily_tokens=chance.randint(1, 9000),
                      max_concurrent=chance.randint(1, 6))

    def amend(self):
        """Somebody changes the limits, whatever is under way."""
        self.limits = self.truth.limits = self.some_limits()
        for accounts in (self.accounts, self.departing):
            if accounts is not None:
                accounts.open([("ann", self.limits)])

    def check(self):
        now, truth, ann = self.clock.now, self.truth, self.ann
        assert ann.today() == truth.today(now)
        used = truth.used(truth.spent, now)
        assert (ann._tokens.total(now), ann._requests.total(now)) == (used, truth.used(truth.requests, now))
        assert (ann.reserved, ann._most - ann._free) == (truth.reserved, truth.under_way)
        assert ann.left()[0] == max(0, self.limits.rpm - truth.used(truth.requests, now))
        assert ann.left()[1] == max(0, min(self.limits.tpm - used - truth.reserved,
                                          self.limits.daily_tokens - truth.today(now) - truth.reserved))


ACTIONS = [Box.arrive] * 10 + [Box.end] * 8 + [Box.try_again, Box.end_departing, Box.end_departing, Box.meet_again] + \
    [Box.tell] * 3
RARE = [Box.kill, Box.reload, Box.amend]


@pytest.mark.parametrize("first", range(0, 1000, 100))
def test_any_schedule_of_arrivals_failures_retries_and_restarts_is_counted_exactly(first):
    for seed in range(first, first + 100):
        chance = random.Random(seed)
        box = Box(chance)
        for _ in range(80):
            box.clock.now += chance.choice([0, 0, 0.01, 0.3, 2, 7, 30, 61]) * chance.random()
            chance.choice(RARE if chance.random() < 0.04 else ACTIONS)(box)
            box.check()
        while box.running:
            box.end()
        while box.leaving:
            box.end_departing()
        box.check()
        assert (box.ann.reserved, box.ann._most - box.ann._free) == (0, 0)
        box.tell()
        assert box.noted == [len(box.truth.requests), sum(amount for _, amount in box.truth.spent)], seed


# -- from worker to worker, and day to day ---------------------------------------------------------------


def test_news_are_told_once_by_day_and_model(clock):
    wall = Clock(MIDNIGHT - 1)
    accounts = Accounts(clock, wall)
    accounts.open([("ann", Limits()), ("bob", Limits())])
    ann = accounts.get("ann")
    ann.enter(0, "m")
    ann.spend(2, 3, "m")
    clock.now += 0.5
    ann.spend(1, 0, "n")
    ann.spend(1, 1, "m")
    wall.now = MIDNIGHT
    clock.now += 0.5
    ann.spend(10, 20, "m")

    def row(day, model, requests, prompt, completion, steps):
        return {"key": "ann", "day": day, "model": model, "requests": requests, "prompt_tokens": prompt,
                "completion_tokens": completion, "steps": steps}
    assert accounts.take_news() == [row("2024-10-03", "m", 1, 3, 4, [[10000, 1, 5], [10005, 0, 2]]),
                                    row("2024-10-03", "n", 0, 1, 0, [[10005, 0, 1]]),
                                    row("2024-10-04", "m", 0, 10, 20, [[10010, 0, 30]])]
    assert accounts.take_news() == []


def test_news_that_nobody_takes_do_not_grow(clock):
    accounts = Accounts(clock, Clock(MIDNIGHT))
    accounts.open([("ann", Limits())])
    for _ in range(2000):
        accounts.get("ann").spend(1, 1)
        clock.now += 0.1
    row, = accounts.take_news()
    assert row["prompt_tokens"] == 2000 and len(row["steps"]) <= WINDOW * STEPS + 1


def test_limits_that_change_keep_the_counts(clock):
    accounts = Accounts(clock, Clock(MIDNIGHT))
    accounts.open([("ann", Limits(rpm=5)), ("bob", Limits(weight=3.0))])
    accounts.get("ann").enter(0)
    accounts.get("bob").enter(0)
    accounts.open([("ann", Limits(rpm=1)), ("eve", Limits())])
    assert refusal(accounts.get("ann")).limit == "rpm"
    assert accounts.get("bob").weight == 3.0, "it may still have requests under way"


@pytest.mark.parametrize("first", ["told", "opened"])
def test_a_new_worker_goes_on_where_the_last_one_was(first):
    accounts = Accounts(Clock(), Clock(MIDNIGHT))
    opened = [("ann", Limits(daily_tokens=100)), ("bob", Limits(daily_tokens=100))]
    steps = [lambda: accounts.restore("2024-10-04", {"ann": 95, "gone": 7}), lambda: accounts.open(opened)]
    for step in steps if first == "told" else reversed(steps):
        step()
    assert (accounts.get("ann").today(), accounts.get("bob").today()) == (95, 0)
    assert refusal(accounts.get("ann"), 6).limit == "daily_tokens"
    assert accounts.take_news() == []


def test_what_is_told_of_another_day_or_is_older_changes_nothing():
    accounts = Accounts(Clock(), Clock(MIDNIGHT))
    accounts.open([("ann", Limits())])
    accounts.get("ann").spend(5, 5)
    accounts.restore("2024-10-03", {"ann": 1000})
    assert accounts.get("ann").today() == 10
    accounts.restore("2024-10-04", {"ann": 4})
    assert accounts.get("ann").today() == 10
