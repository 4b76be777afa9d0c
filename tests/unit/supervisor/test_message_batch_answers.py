"""The message `message_batch`, as a gateway sends it, against a real database."""

import pytest

from blazar.errors import UsageRefused
from blazar.models.base import close_database, open_database
from blazar.models.message_batch import LIFETIME
from blazar.models.migrate import migrate
from blazar.supervisor.message_batch_answers import MessageBatchAnswers


@pytest.fixture(autouse=True)
def database(tmp_path):
    migrate(tmp_path / "blazar.db")
    open_database(tmp_path / "blazar.db")
    yield
    close_database()


@pytest.fixture
def ask():
    """Asks, and gives what would be answered; `ask.now` is the time."""
    def ask(verb, **message):
        found = []
        answers = MessageBatchAnswers(lambda link, message, call: found.append(call()), wall=lambda: ask.now)
        answers.kinds["message_batch"](None, {"verb": verb, "owner": "ann", "object": "b", **message})
        return found[0]
    ask.now = 5.0
    return ask


def test_a_batch_from_its_beginning_to_its_end(ask):
    assert ask("put", requests=[["x", "1"], ["y", "2"]])["row"]["expires_at"] == 5 + LIFETIME
    row = ask("next", resting=[])["row"]
    assert (row["owner"], row["position"], row["body"]) == ("ann", 0, "1")
    assert ask("results", after=-1) == {"rows": [], "more": False}
    told = {"batch": row["batch"], "position": 0, "outcome": "succeeded", "body": "{}"}
    assert ask("answer", **told) == {"kept": True} and ask("answer", **told) == {"kept": False}
    assert ask("forget")["row"]["ended_at"] is None
    assert ask("cancel")["row"]["counts"] == {"succeeded": 1, "canceled": 1}
    assert [row["outcome"] for row in ask("results", after=-1)["rows"]] == ["succeeded", "canceled"]
    assert [row["id"] for row in ask("page", after=None, before=None, limit=5)["rows"]] == ["b"]
    assert ask("find")["row"] == ask("forget")["row"] and ask("find")["row"] is None


def test_time_is_asked_for_with_each_question(ask):
    ask("put", requests=[["x", "1"]])
    ask.now += LIFETIME
    assert ask("next", resting=[])["row"] is None and ask("find")["row"]["counts"] == {"expired": 1}


@pytest.mark.parametrize(("verb", "fields", "error"), [
    ("burn", {}, UsageRefused), ("answer", {"batch": 1, "position": 0, "outcome": "lost", "body": ""}, UsageRefused),
    ("put", {}, KeyError), ("put", {"requests": [["x"]]}, ValueError), ("next", {}, KeyError),
    ("answer", {"batch": "x", "position": 0, "outcome": "errored", "body": ""}, ValueError)])
def test_wrong_messages(ask, verb, fields, error):
    with pytest.raises(error):
        ask(verb, **fields)
