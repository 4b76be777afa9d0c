"""The runner of batches, with a source that is a list."""

import os
import threading

import pytest

from blazar.errors import DatabaseLocked, SupervisorGone
from blazar.proxy.batches.runner import Runner
from blazar.proxy.batches.task import Outcome, Question, Task
from blazar.proxy.directory import Directory
from blazar.proxy.ledger import Ledger
from blazar.transport import Endpoint
from tests.support.exchanges import exchange_of
from tests.support.fake_supervisor import eventually

MODEL = "solo:q4_0"
CHILD = Endpoint(child_id="solo#1", model=MODEL, address=("127.0.0.1", 1), secret=None, lane="llamacpp", pid=1, slots=1,
                 ctx=512, size=1, size_vram=0, keep_alive=-1, ready_at=0)


class Listed:
    """A source of one question after another, of these owners."""

    def __init__(self, owners):
        self.owners = owners
        self.done = []

    def next(self, resting):
        return next((self.task(number, owner) for number, owner in enumerate(self.owners)
                     if number not in [one for one, _ in self.done] and owner not in resting), None)

    def task(self, number, owner):
        question = Question("/v1/chat/completions", b"%d" % number, owner, f"r{number}")
        return Task(MODEL, question, lambda outcome: self.done.append((number, outcome.status)))


@pytest.fixture
def start(tmp_path):
    """Starts a runner of a source, with `ask`; gives its ledger."""
    stop = threading.Event()

    def begin(source, ask, number=0):
        directory, ledger = Directory(), Ledger()
        directory.replace({"models": {MODEL: {"name": MODEL}}, "aliases": {}, "children": {}, "started_at": 1.0})
        runner = Runner([source], directory, ledger, tmp_path / f"lock{number}", stop.is_set)
        thread = threading.Thread(target=runner._work, args=(ask,), daemon=True)
        threads.append((thread, runner))
        ledger.start = lambda: thread.start() or runner
        return ledger

    threads = []
    yield begin
    stop.set()
    for thread, runner in threads:
        runner.wake()
        if thread.ident:
            thread.join(10)


def exchange(model, endpoint):
    made = exchange_of(id="x", dialect=None, operation="chat", asked=model, stream=False, body=b"", payload={})
    made.model, made.endpoint = model, endpoint
    return made


def test_each_is_asked_once_in_order(start):
    source, asked = Listed(["a", "a", "b"]), []
    start(source, lambda question: asked.append(question.body) or Outcome(200, b"{}")).start()
    eventually(lambda: len(source.done) == 3)
    assert asked == [b"0", b"1", b"2"] and source.done == [(0, 200), (1, 200), (2, 200)]


@pytest.mark.parametrize("model, endpoint, waits", [
    (MODEL, CHILD, True), ("other", CHILD, False), ("other", None, True)])
def test_somebody_uses_the_model_or_waits_for_one(start, model, endpoint, waits):
    source = Listed(["a"])
    ledger = start(source, lambda question: Outcome(200, b"{}"))
    somebody = exchange(model, endpoint)
    ledger.enter(somebody)
    runner = ledger.start()
    assert runner.in_use(MODEL) is waits
    ledger.leave(somebody)
    eventually(lambda: source.done == [(0, 200)])


def test_whose_limit_is_reached_rests_and_others_go_on(start):
    source, asked = Listed(["a", "b"]), []

    def ask(question):
        asked.append(question.owner)
        return Outcome(429, b"{}", again=0.3) if asked == ["a"] else Outcome(200, b"{}")

    start(source, ask).start()
    eventually(lambda: len(source.done) == 2)
    assert asked == ["a", "b", "a"] and source.done == [(1, 200), (0, 200)]


def test_whose_limit_is_raised_rests_no_longer(start):
    source, asked = Listed(["a"]), []

    def ask(question):
        asked.append(question.owner)
        return Outcome(429, b"{}", again=9999.0) if len(asked) == 1 else Outcome(200, b"{}")

    runner = start(source, ask).start()
    eventually(lambda: runner._now_resting() == {"a"})
    runner.rested()
    eventually(lambda: source.done == [(0, 200)])


@pytest.mark.parametrize("trouble", [SupervisorGone(what="x"), DatabaseLocked(path="p", reason="r", remedy="m")])
def test_an_answer_that_cannot_be_kept_yet_is_kept_later_and_not_asked_for_again(start, trouble):
    source, asked, tries = Listed(["a"]), [], iter([trouble, trouble])
    done = source.done

    class Reluctant(list):
        def append(self, one):
            for error in tries:
                raise error
            done.append(one)

    source.task = lambda number, owner: Task(MODEL, Question("/v1/chat/completions", b"0", owner, "r0"),
                                             lambda outcome: Reluctant().append((number, outcome.status)))
    start(source, lambda question: asked.append(question.body) or Outcome(200, b"{}")).start()
    eventually(lambda: done == [(0, 200)])
    assert asked == [b"0"]


def test_a_lock_that_another_process_holds_is_respected(start, tmp_path):
    import fcntl
    held = os.open(tmp_path / "lock0", os.O_RDWR | os.O_CREAT)
    fcntl.flock(held, fcntl.LOCK_EX)
    runner = Runner([], Directory(), Ledger(), tmp_path / "lock0", lambda: False)
    assert runner._locked() is False
    os.close(held)
    assert runner._locked() is True
