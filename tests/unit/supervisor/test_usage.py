import threading

import pytest

from blazar.errors import DatabaseUnusable
from blazar.models.api_usage import ApiUsage
from blazar.models.base import close_database, open_database
from blazar.models.migrate import migrate
from blazar.supervisor.usage import Usage

DAY = 86400
JANUARY_2 = 20455 * DAY


class Clock:
    now = float(JANUARY_2)

    def __call__(self):
        return self.now


class LaterPool:
    """Keeps what is submitted until the test runs it."""

    def __init__(self):
        self.work = []

    def submit(self, then, work, *args):
        self.work.append((then, work, args))

    def run(self):
        for then, work, args in self.work:
            try:
                then(work(*args), None)
            except DatabaseUnusable as error:
                then(None, error)
        self.work.clear()


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
    usage = Usage(pool, clock)
    usage.read()
    return usage


def row(key="ann", day="2026-01-02", requests=1, prompt=2, completion=3):
    return {"key": key, "day": day, "requests": requests, "prompt_tokens": prompt, "completion_tokens": completion}


def test_the_days_tokens_are_at_hand_at_once_and_in_the_database_soon(usage, pool):
    usage.add([row(), row("bob"), row(day="2026-01-01", prompt=100)])
    usage.add([row()])
    assert usage.today() == {"day": "2026-01-02", "tokens": {"ann": 10, "bob": 5}}
    assert ApiUsage.every() == []
    pool.run()
    assert ApiUsage.of_day("2026-01-02") == {"ann": 10, "bob": 5} and ApiUsage.of_day("2026-01-01") == {"ann": 103}


def test_a_new_daemon_goes_on_where_the_last_one_was(usage, pool, clock):
    usage.add([row()])
    usage.flush()
    pool.run()
    again = Usage(pool, clock)
    again.read()
    assert again.today() == {"day": "2026-01-02", "tokens": {"ann": 5}}


def test_a_day_begins_with_nothing(usage, clock):
    usage.add([row()])
    clock.now += DAY
    assert usage.today() == {"day": "2026-01-03", "tokens": {}}
    usage.add([row(), row(day="2026-01-03")])
    assert usage.today()["tokens"] == {"ann": 5}


def test_what_could_not_be_written_is_written_with_the_next_report(usage, pool, database, caplog):
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
    pool.run()
    assert ApiUsage.of_day("2026-01-02") == {"ann": 10, "bob": 5}


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
    assert ApiUsage.every() == [row(requests=1000, prompt=2000, completion=3000)]


@pytest.mark.parametrize("wrong", [{}, {"key": "ann"}, row() | {"requests": None}])
def test_a_report_that_makes_no_sense_is_an_error_of_its_sender(usage, wrong):
    with pytest.raises((KeyError, TypeError)):
        usage.add([wrong])
    assert usage.today()["tokens"] == {}
