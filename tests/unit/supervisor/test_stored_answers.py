"""The message `keep`, as a gateway sends it, against a real database."""

import pytest

from blazar.errors import UsageRefused
from blazar.models.base import close_database, open_database
from blazar.models.migrate import migrate
from blazar.models.stored import LIFETIME
from blazar.supervisor.stored_answers import StoredAnswers

PUT = {"table": "response", "verb": "put", "owner": "ann", "object": "r1", "model": "m", "metadata": "{}",
       "input": "[1]", "body": "{}"}
PAGE = {"table": "response", "verb": "page", "owner": "ann", "after": None, "limit": 5, "newest_first": True,
        "model": None, "pairs": {}}


@pytest.fixture(autouse=True)
def database(tmp_path):
    migrate(tmp_path / "blazar.db")
    open_database(tmp_path / "blazar.db")
    yield
    close_database()


@pytest.fixture
def keep():
    """Asks, and gives what would be answered; `keep.now` is the time."""
    def ask(**message):
        found = []
        answers = StoredAnswers(lambda link, message, call: found.append(call()), wall=lambda: ask.now)
        answers.kinds["keep"](None, {"kind": "keep", **message})
        return found[0]
    ask.now = 5.0
    return ask


def of(verb, **more):
    return {"table": "response", "verb": verb, "owner": "ann", "object": "r1", **more}


def test_every_verb(keep):
    assert keep(**PUT) == {}
    assert keep(**of("find"))["row"]["input"] == "[1]"
    assert keep(**of("find", owner="bob")) == {"row": None}
    assert keep(**of("annotate", metadata='{"a":"b"}')) == {"there": True}
    assert keep(**PAGE) == {"rows": [{"metadata": '{"a":"b"}', "body": "{}"}], "more": False}
    assert keep(**of("forget")) == {"there": True} and keep(**of("forget")) == {"there": False}
    assert keep(**of("annotate", metadata="{}")) == {"there": False}


def test_time_passes(keep):
    keep(**PUT)
    keep.now += LIFETIME
    assert keep(**of("find")) == {"row": None}


@pytest.mark.parametrize("field", list(PUT))
def test_a_message_that_lacks_something_is_refused_before_any_work(keep, field):
    with pytest.raises(KeyError):
        keep(**{name: value for name, value in PUT.items() if name != field})


def test_what_is_unknown_is_refused(keep):
    with pytest.raises(UsageRefused, match="'drop' of 'response'"):
        keep(**of("drop"))
    with pytest.raises(UsageRefused):
        keep(**{**PUT, "table": "alias"})
