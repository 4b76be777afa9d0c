import random
import tracemalloc

import pytest

from blazar.errors import DailyQuotaExceeded, QuotaExceeded
from blazar.proxy.accounts import DAY, STEPS, WINDOW, Account, Accounts, Limits, SlidingWindow

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


# -- the window ------------------------------------------------------------------------------------------


def test_an_amount_counts_for_sixty_seconds_and_leaves_within_a_step(clock):
    window = SlidingWindow()
    window.add(clock.now, 5)
    assert window.total(clock.now + WINDOW) == 5
    assert window.total(clock.now + WINDOW + 1 / STEPS) == 0


def test_the_wait_is_until_enough_has_left(clock):
    window = SlidingWindow()
    for amount in (5, 3, 2):
        window.add(clock.now, amount)
        clock.now += 10
    assert window.wait(clock.now, 10) == 0
    for most, leaves in ((9, 30), (5, 30), (4, 40), (2, 40), (1, 50), (0, 50)):
        wait = window.wait(clock.now, most)
        assert leaves <= wait + 1e-6 <= leaves + 0.2, most
        assert window.total(clock.now) == 10
    assert window.total(clock.now + window.wait(clock.now, 2)) <= 2


def test_a_busy_window_does_not_grow(clock):
    window = SlidingWindow()
    tracemalloc.start()
    for number in range(100_000):
        window.add(clock.now, 1)
        clock.now += 0.001
        if number == 1000:
            before, _ = tracemalloc.get_traced_memory()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 1000
    assert abs(window.total(clock.now) - WINDOW * 1000) <= 2000 / STEPS


def test_a_window_is_the_sum_of_what_happened_in_it(clock):
    """Against a list of all that happened, with pauses from a moment to minutes."""
    window, chance, happened = SlidingWindow(), random.Random(3), []
    for _ in range(3000):
        clock.now += chance.choice([0.0, 0.01, 0.3, 2.0, 2.0, 59.9, 60.1, 200.0])
        if chance.random() < 0.7:
            happened.append((int(clock.now * STEPS), chance.randrange(4)))
            window.add(clock.now, happened[-1][1])
        oldest = int(clock.now * STEPS) - WINDOW * STEPS
        assert window.total(clock.now) == sum(amount for step, amount in happened if step >= oldest)


# -- each limit ------------------------------------------------------------------------------------------


def test_requests_a_minute(clock):
    ann = account(clock, rpm=2)
    for _ in range(2):
        ann.enter(0)
        ann.leave()
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
    ann.leave()
    ann.enter(0)


def test_tokens_a_minute_are_reserved_then_settled(clock):
    ann = account(clock, tpm=100)
    ann.enter(60)
    ann.reserve(60)
    assert refusal(ann, 41).limit == "tpm"
    ann.enter(40)
    ann.settle(60, 3, 7)
    assert refusal(ann, 91).limit == "tpm"
    ann.enter(90)
    clock.now += 61
    ann.enter(100)


def test_the_wait_for_tokens_is_long_enough(clock):
    ann = account(clock, tpm=100)
    for used in (50, 30, 20):
        ann.settle(0, used, 0)
        clock.now += 10
    refused = refusal(ann, 60)
    clock.now += refused.retry_after
    ann.enter(60)


def test_a_request_larger_than_the_limit_goes_alone(clock):
    ann = account(clock, tpm=100, daily_tokens=200)
    ann.enter(5000)
    ann.reserve(5000)
    assert refusal(ann, 1).limit == "tpm"
    ann.settle(5000, 1, 0)
    assert refusal(ann, 5000).limit == "tpm"


def test_tokens_a_day_begin_anew_at_midnight_utc(clock):
    wall = Clock(MIDNIGHT + DAY - 90)
    ann = account(clock, wall, daily_tokens=100)
    ann.settle(0, 60, 35)
    ann.enter(5)
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
    ann.settle(0, 2, 3)
    assert ann.today() == 5


def test_accounts_are_apart():
    accounts = Accounts(Clock(), Clock(MIDNIGHT))
    accounts.open([("ann", Limits(rpm=1)), ("bob", Limits(rpm=1))])
    accounts.get("ann").enter(0)
    accounts.get("bob").enter(0)
    assert refusal(accounts.get("ann")).limit == "rpm"


# -- any schedule ----------------------------------------------------------------------------------------


class Model:
    """The same rules, told as plainly as they can be: a list of all that happened."""

    def __init__(self, limits):
        self.limits = limits
        self.requests, self.spent, self.under_way, self.reserved = [], [], 0, 0

    def used(self, events, now):
        return sum(amount for at, amount in events if int(now * STEPS) - int(at * STEPS) <= WINDOW * STEPS)

    def today(self, wall):
        return sum(amount for at, amount in self.spent if at // DAY == wall // DAY)

    def allows(self, now, tokens):
        limits = self.limits
        return (self.under_way < limits.max_concurrent and self.used(self.requests, now) < limits.rpm
                and self.used(self.spent, now) + self.reserved + min(tokens, limits.tpm) <= limits.tpm
                and self.today(now) + self.reserved + min(tokens, limits.daily_tokens) <= limits.daily_tokens)


@pytest.mark.parametrize("seed", range(1000))
def test_any_schedule_of_arrivals_cancellations_and_failures_is_counted_exactly(seed):
    chance = random.Random(seed)
    clock = Clock(MIDNIGHT + DAY - chance.uniform(0, 600))
    limits = Limits(rpm=chance.randint(1, 40), tpm=chance.randint(1, 3000), daily_tokens=chance.randint(1, 9000),
                    max_concurrent=chance.randint(1, 6))
    ann, model = Account("ann", limits, clock, clock), Model(limits)
    running = []
    for _ in range(120):
        clock.now += chance.choice([0, 0, 0.01, 0.3, 2, 7, 30, 61]) * chance.random()
        if running and chance.random() < 0.45:
            reserved = running.pop(chance.randrange(len(running)))
            used = chance.choice([0, 1, reserved // 2, reserved, 2 * reserved])  # failed, cancelled, finished, longer
            ann.settle(reserved, used // 3, used - used // 3)
            ann.leave()
            model.reserved, model.under_way = model.reserved - reserved, model.under_way - 1
            model.spent.append((clock.now, used))
        else:
            tokens = chance.choice([0, 10, 200, 1000, 5000])
            allowed = model.allows(clock.now, tokens)
            try:
                ann.enter(tokens)
            except QuotaExceeded as error:
                assert not allowed, error
                assert 1 <= error.retry_after <= DAY
            else:
                assert allowed
                ann.reserve(tokens)
                running.append(tokens)
                model.requests.append((clock.now, 1))
                model.reserved, model.under_way = model.reserved + tokens, model.under_way + 1
        assert ann.today() == model.today(clock.now)
        assert ann._tokens.total(clock.now) == model.used(model.spent, clock.now)
        assert (ann._reserved, ann._concurrent) == (model.reserved, model.under_way)
    for reserved in running:
        ann.settle(reserved, 0, 0)
        ann.leave()
    assert (ann._reserved, ann._concurrent) == (0, 0)


# -- from worker to worker, and day to day ---------------------------------------------------------------


def test_news_are_told_once_by_day():
    wall = Clock(MIDNIGHT - 1)
    accounts = Accounts(Clock(), wall)
    accounts.open([("ann", Limits()), ("bob", Limits())])
    ann = accounts.get("ann")
    ann.enter(0)
    ann.settle(0, 2, 3)
    wall.now = MIDNIGHT
    ann.settle(0, 10, 20)
    assert accounts.take_news() == [
        {"key": "ann", "day": "2024-10-03", "requests": 1, "prompt_tokens": 2, "completion_tokens": 3},
        {"key": "ann", "day": "2024-10-04", "requests": 0, "prompt_tokens": 10, "completion_tokens": 20}]
    assert accounts.take_news() == []


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
    accounts.get("ann").settle(0, 5, 5)
    accounts.restore("2024-10-03", {"ann": 1000})
    assert accounts.get("ann").today() == 10
    accounts.restore("2024-10-04", {"ann": 4})
    assert accounts.get("ann").today() == 10
