"""Batches of messages as the runner gets them, with the supervisor's answers over a real database."""

import json

import pytest

from blazar.models.base import close_database, open_database
from blazar.models.message_batch import MessageBatch
from blazar.models.migrate import migrate
from blazar.proxy.batches.anthropic_source import LONGEST, AnthropicBatches
from blazar.proxy.batches.task import Outcome
from blazar.supervisor.message_batch_answers import MessageBatchAnswers

NOW = 5.0


class Supervisor:
    """Asks as the gateway's does, without a socket between."""

    def message_batch(self, verb, **fields):
        found = []
        answers = MessageBatchAnswers(lambda link, message, call: found.append(call()), wall=lambda: NOW)
        answers.kinds["message_batch"](None, {"verb": verb, **fields})
        return found[0]


@pytest.fixture
def source(tmp_path):
    migrate(tmp_path / "blazar.db")
    open_database(tmp_path / "blazar.db")
    yield AnthropicBatches(Supervisor())
    close_database()


def put(*bodies, owner="ann", id="b"):
    MessageBatch.put(owner, id, [(str(number), json.dumps(body)) for number, body in enumerate(bodies)], NOW)


def results(id="b", owner="ann"):
    return [(row["outcome"], row["body"]) for row in MessageBatch.results(owner, id, -1)[0]]


def test_requests_become_tasks_and_their_outcomes_results(source):
    put({"model": "m"}, {"model": "n"})
    task = source.next(frozenset())
    assert (task.model, task.question.path, task.question.owner) == ("m", "/v1/messages", "ann")
    assert json.loads(task.question.body) == {"model": "m"}
    assert source.next(frozenset()).question == task.question, "until it is answered it is the next"
    task.answered(Outcome(200, b'{"id":"msg"}'))
    source.next(frozenset()).answered(Outcome(404, b'{"type":"error"}'))
    assert source.next(frozenset()) is None
    assert results() == [("succeeded", '{"id":"msg"}'), ("errored", '{"type":"error"}')]


def test_what_cannot_be_one_answer_is_told_without_asking(source):
    put({"model": "m", "stream": True}, {"stream": False})
    assert source.next(frozenset()).model == ""
    source.next(frozenset()).answered(Outcome(400, b"{}"))
    outcome, told = results()[0]
    assert outcome == "errored" and "`stream` cannot be true" in json.loads(told)["error"]["message"]


def test_an_answer_that_is_too_long_is_an_error(source):
    put({"model": "m"})
    source.next(frozenset()).answered(Outcome(200, b'"' + b"x" * LONGEST + b'"'))
    assert results()[0][0] == "errored" and "8.0 MiB" in results()[0][1]


def test_owners_that_rest_are_passed_over(source):
    put({"model": "m"})
    put({"model": "n"}, owner="bob", id="c")
    assert source.next(frozenset(["ann"])).model == "n" and source.next(frozenset(["ann", "bob"])) is None
