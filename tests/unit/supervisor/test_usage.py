import threading

import pytest

from blazar.errors import DatabaseUnusable
from blazar.models.api_usage import ApiUsage
from blazar.models.base import close_database, open_database
from blazar.models.migrate import migrate
from blazar.supervisor.usage import Usage

DAY = 86400
JANUARY_2 = 20455 * DAY
NOW = 5000.0


class Clock:
    now = float(JANUARY_2)

    def __call__(self):
        return self.now


class LaterPool:
    """Keeps what is submitted, and what is to be called later, until the test runs it."""

    def __init__(self):
        self.work = []
        self.timers = []

    def later(self, seconds, call):
        self.timers.append(call)

    def tick(self):
        timers, self.timers = self.timers, []
        for call in timers:
            call()

    def submit(self, then, work, *args):
        self.work.append((then, work, args))

    def run(self):
        submitted, self.work = self.work, []
        for then, work, args in submitted:
            try:
                then(work(*args), None)
            except DatabaseUnusable as error:
                then(None, error)


@pytest.fixture
def database(tmp_path):
    path = tmp_path / "blazar.db"
    migrate(path)
    open_database(path)
    yield path
    close_database()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def pool():
    return LaterPool()


@pytest.fixture
def usage(database, pool, clock):
    usage = Usage(pool, pool.later, lambda: NOW, clock)
    usage.read()
    return usage


def row(key="ann", day="2026-01-02", requests=1, prompt=2, completion=3, steps=()):
    return {"key": key, "day": day, "model": "m:q4_0", "requests": requests, "prompt_tokens": prompt,
            "completion_tokens": completion, "steps": steps}


def noted(**changes):
    return {name: value for name, value in row(**changes).items() if name != "steps"}


def test_the_days_tokens_are_at_hand_at_once_and_in_the_database_soon(usage, pool):
    usage.add([row(), row("bob"), row(day="2026-01-01", prompt=100)])
    usage.add([row()])
    assert usage.today() == {"day": "2026-01-02", "tokens": {"ann": 10, "bob": 5}, "minutes": {}}
    assert ApiUsage.since("") == []
    pool.run()
    assert ApiUsage.of_day("2026-01-02") == {"ann": 10, "bob": 5} and ApiUsage.of_day("2026-01-01") == {"ann": 103}


def test_a_new_daemon_goes_on_where_the_last_one_was(usage, pool, clock):
    usage.add([row()])
    usage.flush()
    pool.run()
    again = Usage(pool, pool.later, lambda: NOW, clock)
    again.read()
    assert again.today() == {"day": "2026-01-02", "tokens": {"ann": 5}, "minutes": {}}


def test_a_day_begins_with_nothing(usage, clock):
    usage.add([row()])
    clock.now += DAY
    assert usage.today() == {"day": "2026-01-03", "tokens": {}, "minutes": {}}
    usage.add([row(), row(day="2026-01-03")])
    assert usage.today()["tokens"] == {"ann": 5}


def test_the_last_minute_is_at_hand_in_the_steps_in_which_it_came(usage):
    now = int(NOW * 10)
    usage.add([row(steps=[[now - 601, 1, 9], [now - 600, 1, 5], [now, 0, 7]]), row("bob", steps=[[now - 700, 1, 1]])])
    usage.add([row(steps=[[now, 1, 0]])])
    assert usage.today()["minutes"] == {"ann": [[now - 600, 1, 5], [now, 1, 7]]}


def test_a_locked_database_holds_up_one_thread_and_loses_nothing(usage, pool):
    for _ in range(10):
        usage.add([row()])
    assert len(pool.work) == 1
    pool.run()
    assert ApiUsage.of_day("2026-01-02") == {"ann": 50} and not pool.timers
    usage.add([row()])
    assert len(pool.work) == 1


def test_what_could_not_be_written_is_written_later(usage, pool, database, caplog):
    hidden = database.with_name("hidden")
    close_database()
    database.rename(hidden)
    database.mkdir()
    usage.add([row()])
    pool.run()
    assert "could not be noted" in caplog.text
    database.rmdir()
    hidden.rename(database)
    usage.add([row(), row("bob")])
    assert not pool.work
    pool.tick()
    pool.run()
    assert ApiUsage.of_day("2026-01-02") == {"ann": 10, "bob": 5}


def test_a_database_that_stays_away_costs_one_row_and_one_line(usage, pool, database, caplog):
    caplog.set_level("INFO")
    hidden = database.with_name("hidden")
    close_database()
    database.rename(hidden)
    database.mkdir()
    for _ in range(200):
        usage.add([row(), row("bob")])
        pool.run()
        pool.tick()
    assert caplog.text.count("could not be noted") == 1 and len(usage._pending) == 2
    database.rmdir()
    hidden.rename(database)
    pool.run()
    assert ApiUsage.of_day("2026-01-02") == {"ann": 1000, "bob": 1000} and "is noted again" in caplog.text
    usage.add([row()])
    pool.run()
    assert ApiUsage.of_day("2026-01-02")["ann"] == 1005


def test_many_writers_write_each_row_once(usage, database):
    def work():
        usage.flush()
        close_database()

    for _ in range(20):
        usage.add([row()] * 50)
        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert ApiUsage.since("") == [noted(requests=1000, prompt=2000, completion=3000)]


@pytest.mark.parametrize("wrong", [{}, {"key": "ann"}, row() | {"requests": None}])
def test_a_report_that_makes_no_sense_is_an_error_of_its_sender(usage, wrong):
    with pytest.raises((KeyError, TypeError)):
        usage.add([wrong])
    assert usage.today()["tokens"] == {}
