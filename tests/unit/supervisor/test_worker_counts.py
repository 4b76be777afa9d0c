import os
import subprocess
import sys

import pytest

from blazar.supervisor.worker_counts import WorkerCounts
from blazar.telemetry.exposition import page
from blazar.telemetry.metrics import Metrics
from tests.support.exposition import read, value


@pytest.fixture
def other():
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.wait()


def told(requests, in_flight):
    metrics = Metrics()
    metrics.coalesced.add("openai", "m", by=requests)
    metrics.in_flight.read = lambda: in_flight
    for _ in range(requests):
        metrics.load.observe(0.3, "m")
    return metrics.families()


def seen(counts):
    found = read(page(counts.families()))
    return (value(found, "blazar_coalesced_total"), value(found, "blazar_requests_in_flight"),
            value(found, "blazar_load_seconds_count"), value(found, "blazar_load_seconds_bucket", le="0.5"))


def test_several_workers_are_one_sum(other):
    counts = WorkerCounts()
    counts.take({os.getpid(): told(2, 1), other.pid: told(5, 3)})
    assert seen(counts) == (7, 4, 7, 7)
    counts.take({os.getpid(): told(3, 1), other.pid: told(5, 0)})
    assert seen(counts) == (8, 1, 8, 8)


def test_no_count_falls_when_a_worker_goes_and_another_comes(other):
    counts = WorkerCounts()
    counts.take({other.pid: told(5, 3)})
    counts.take({})
    assert seen(counts) == (5, 0, 5, 5), "it did not answer: what it had counted stands, what it was doing is not known"
    counts.take({other.pid: told(6, 1)})
    assert seen(counts) == (6, 1, 6, 6), "and it is there again"
    other.kill()
    other.wait()
    for requests in (1, 4):
        counts.take({os.getpid(): told(requests, 2)})
        assert seen(counts) == (6 + requests, 2, 6 + requests, 6 + requests)


def test_the_last_words_of_a_worker_stand(other):
    counts = WorkerCounts()
    counts.take({other.pid: told(5, 3)})
    counts.keep(other.pid, told(7, 1))
    assert seen(counts) == (7, 0, 7, 7)
    other.kill()
    other.wait()
    counts.take({os.getpid(): told(1, 2)})
    assert seen(counts) == (8, 2, 8, 8)


def test_without_any_worker_there_is_nothing():
    assert WorkerCounts().families() == []
