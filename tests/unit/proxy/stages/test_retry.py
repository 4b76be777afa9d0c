from pathlib import Path

import pytest

from blazar.errors import ChildFailed, ChildSilent, ShuttingDown
from blazar.proxy.directory import Directory
from blazar.proxy.exchange import Reply, Retryable
from blazar.proxy.ledger import Ledger
from blazar.proxy.stages.retry import Retry
from blazar.proxy.supervisor import Supervisor
from blazar.proxy.warden import Warden
from blazar.telemetry.metrics import Metrics
from tests.support.exchanges import exchange_of
from tests.support.fake_supervisor import endpoint

PLACE = endpoint("m:q4_0", ("127.0.0.1", 9))
FAILED = ChildFailed(model="m:q4_0", reason="test")
ANSWERED = Reply(200)


@pytest.fixture
def directory():
    return Directory({"models": {"m:q4_0": {}}, "children": {"m:q4_0": PLACE.to_dict()}})


def run(directory, *outcomes, ended_by=None):
    tries = iter(outcomes)
    said = []

    def attempt(exchange):
        said.append(1)
        outcome = next(tries)
        exchange.ended_by = ended_by
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    exchange = exchange_of(id="r", dialect=None, operation="chat", asked="m", stream=False, body=b"", payload={},
                        endpoint=PLACE)
    try:
        ledger, metrics = Ledger(), Metrics()
        warden = Warden(ledger, directory, Supervisor(Path("nowhere"), directory, ledger), metrics, 0)
        return Retry(directory, metrics, warden)(exchange, attempt), len(said)
    except (ChildFailed, ChildSilent, ShuttingDown) as error:
        return error, len(said)


def test_a_good_attempt_is_the_only_one(directory):
    assert run(directory, ANSWERED) == (ANSWERED, 1)


def test_a_stale_connection_is_tried_once_more_at_the_same_child(directory):
    assert run(directory, Retryable(FAILED), ANSWERED) == (ANSWERED, 2)
    assert directory.endpoint("m:q4_0") == PLACE


def test_an_unreachable_child_is_asked_after(directory):
    assert run(directory, Retryable(FAILED, unreachable=True), ANSWERED) == (ANSWERED, 2)
    assert directory.endpoint("m:q4_0") is None


def test_there_is_no_third_attempt(directory):
    assert run(directory, Retryable(FAILED), Retryable(FAILED), ANSWERED) == (FAILED, 2)


def test_other_failures_are_not_repeated(directory):
    assert run(directory, FAILED, ANSWERED) == (FAILED, 1)


def test_an_attempt_that_was_ended_with_its_child_is_tried_once_more(directory):
    ended = Retryable(FAILED)
    assert run(directory, ended, ANSWERED, ended_by=ended) == (ANSWERED, 2)


def test_what_was_ended_for_good_is_not_tried_again(directory):
    error, attempts = run(directory, Retryable(FAILED), ANSWERED, ended_by=ShuttingDown())
    assert isinstance(error, ShuttingDown) and attempts == 1


def test_without_a_supervisor_a_silent_child_stays(directory):
    silent = ChildSilent(model="m:q4_0", limit="1 s")
    assert run(directory, silent, ANSWERED) == (silent, 1)
    assert directory.endpoint("m:q4_0") == PLACE
