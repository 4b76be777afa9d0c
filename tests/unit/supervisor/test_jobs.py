"""Pulls asked for over a link: notes, the answer, cancelling, and the end of the link."""

import socket
import threading

import pytest

from blazar.control import Link
from blazar.errors import UsageRefused
from blazar.models.base import close_database
from blazar.paths import Paths
from blazar.store.store import Store
from blazar.supervisor.jobs import Jobs
from blazar.supervisor.loop import Loop
from blazar.supervisor.pool import Pool
from tests.servers.registry import Registry
from tests.support.raw_gguf import gguf_bytes
from tests.support.registry_pull import means
from tests.support.waiting import until

CONTENT = gguf_bytes({"general.file_type": 7}, elements=50_000)


class Asker:
    """The gateway's end: what it was told, and the raw answer of each job."""

    def __init__(self, sock):
        self.notes, self.answers = [], []
        self.link = Link(sock, lambda link, message: self.notes.append(message)).start()

    def ask(self, job, reference):
        self.link.ask_later("job", self.answers.append, job=job, verb="pull", reference=reference)


@pytest.fixture
def registry():
    with Registry() as running:
        running.add("o/tiny", {"tiny-Q8_0.gguf": CONTENT})
        yield running


@pytest.fixture
def world(tmp_path, registry):
    """The jobs, their loop, the supervisor's link and the asker at its other end."""
    loop, (here, there) = Loop(), socket.socketpair()
    jobs = Jobs(Pool(loop), Store(Paths(tmp_path / "data")), means(registry),
                lambda link, message, model: link.answer(message, model=model))
    link = Link(here, lambda link, message: loop.post(
        jobs.start if message["kind"] == "job" else jobs.cancel, link, message),
        lambda link: loop.post(jobs.drop, link)).start()
    asker = Asker(there)
    yield jobs, loop, link, asker
    asker.link.close()
    link.close()
    close_database()


def turn_until(loop, probe):
    def turned():
        loop.turn(longest=0.02)
        return probe()
    return until(turned, 20)


def test_a_pull_tells_and_answers(world):
    _, loop, _, asker = world
    asker.ask(3, "o/tiny")
    turn_until(loop, lambda: asker.answers)
    assert asker.answers[0]["model"]["name"] == "o/tiny:q8_0"
    assert {note["kind"] for note in asker.notes} == {"progress"} and {note["job"] for note in asker.notes} == {3}
    assert [note["begins"] for note in asker.notes if "begins" in note] == ["tiny-Q8_0.gguf"]
    assert [note for note in asker.notes if note.get("stage") == "install"]


def test_an_error_is_the_answer(world):
    _, loop, _, asker = world
    asker.ask(1, "o/none")
    turn_until(loop, lambda: asker.answers)
    assert asker.answers[0]["error"]["slug"] == "repository-missing"


@pytest.mark.parametrize("how", ["cancel", "drop", "end"])
def test_what_is_cancelled_ends(world, registry, how):
    jobs, loop, link, asker = world
    file = registry.file("o/tiny", "tiny-Q8_0.gguf")
    file.held = threading.Event()
    asker.ask(1, "o/tiny")
    turn_until(loop, lambda: registry.sent("o/tiny", "tiny-Q8_0.gguf") > 0)
    if how == "cancel":
        asker.link.note("cancel", job=2)  # nobody's
        asker.link.note("cancel", job=1)
    elif how == "drop":
        jobs.drop(link)
    else:
        jobs.end()
    turn_until(loop, lambda: asker.answers)
    assert asker.answers[0]["error"]["slug"] == "download-stopped"
    file.held.set()


def test_one_that_waits_for_its_turn_can_be_cancelled_too(tmp_path, registry):
    loop, (here, there) = Loop(), socket.socketpair()
    asker, link = Asker(there), Link(here, lambda link, message: None).start()
    pool = Pool(loop, 0)
    jobs = Jobs(pool, Store(Paths(tmp_path)), means(registry), lambda *_: None)
    message = {"kind": "job", "id": 1, "job": 1, "verb": "pull", "reference": "o/tiny"}
    jobs.start(link, message)
    jobs.cancel(link, {"job": 1})
    pool._freed()
    turn_until(loop, lambda: not jobs._running)
    assert registry.server.requests == []
    asker.link.close()


@pytest.mark.parametrize("change", [{"verb": "dance"}, {"job": 1}])
def test_what_is_no_job_is_refused(world, registry, change):
    jobs, _, link, _ = world
    jobs._running[link, 1] = threading.Event()
    with pytest.raises(UsageRefused, match="or its number is taken"):
        jobs.start(link, {"job": 2, "verb": "pull", "reference": "o/tiny", **change})
