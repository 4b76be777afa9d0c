import pytest

from blazar.errors import ChildFailed
from blazar.proxy.directory import Directory
from blazar.proxy.exchange import Exchange, Reply, Retryable
from blazar.proxy.stages.retry import Retry
from blazar.telemetry.metrics import Metrics
from tests.support.fake_supervisor import endpoint

PLACE = endpoint("m:q4_0", ("127.0.0.1", 9))
FAILED = ChildFailed(model="m:q4_0", reason="test")


@pytest.fixture
def directory():
    return Directory({"models": {"m:q4_0": {}}, "children": {"m:q4_0": PLACE.to_dict()}})


def run(directory, *outcomes):
    tries = iter(outcomes)
    said = []

    def attempt(exchange):
        said.append(1)
        outcome = next(tries)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    exchange = Exchange(id="r", dialect=None, operation="chat", asked="m", stream=False, body=b"", payload={},
                        endpoint=PLACE)
    try:
        return Retry(directory, Metrics())(exchange, attempt), len(said)
    except ChildFailed as error:
        return error, len(said)


def test_a_good_attempt_is_the_only_one(directory):
    assert run(directory, Reply(200)) == (Reply(200), 1)


def test_a_stale_connection_is_tried_once_more_at_the_same_child(directory):
    assert run(directory, Retryable(FAILED), Reply(200)) == (Reply(200), 2)
    assert directory.endpoint("m:q4_0") == PLACE


def test_an_unreachable_child_is_asked_after(directory):
    assert run(directory, Retryable(FAILED, unreachable=True), Reply(200)) == (Reply(200), 2)
    assert directory.endpoint("m:q4_0") is None


def test_there_is_no_third_attempt(directory):
    assert run(directory, Retryable(FAILED), Retryable(FAILED), Reply(200)) == (FAILED, 2)


def test_other_failures_are_not_repeated(directory):
    assert run(directory, FAILED, Reply(200)) == (FAILED, 1)
