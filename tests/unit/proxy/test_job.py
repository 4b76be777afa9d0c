"""Long work as the gateway sees it, over a real link."""

import socket

import pytest

from blazar.control import Link
from blazar.errors import LinkClosed, RepositoryMissing
from blazar.proxy.job import Job
from tests.support.waiting import until


@pytest.fixture
def ends():
    """The gateway's link, the supervisor's, and what the latter heard."""
    here, there = socket.socketpair()
    heard = []
    links = Link(here, lambda link, message: None), Link(there, lambda link, message: heard.append(message))
    yield *(link.start() for link in links), heard
    for link in links:
        link.close()


def test_it_gives_what_it_is_told_and_ends_with_the_answer(ends):
    gateway, supervisor, heard = ends
    with Job(gateway, 7, "pull", reference="o/r") as job:
        asked = until(lambda: heard)[0]
        assert (asked["kind"], asked["job"], asked["verb"], asked["reference"]) == ("job", 7, "pull", "o/r")
        job.hear({"says": "one"})
        job.hear({"says": "two"})
        supervisor.answer(asked, model={})
        assert [note["says"] for note in job] == ["one", "two"]
    supervisor.close()
    assert [message["kind"] for message in heard] == ["job"], "what has ended is not cancelled"


def test_its_error_is_raised_after_what_was_told(ends):
    gateway, supervisor, heard = ends
    with Job(gateway, 7, "pull") as job:
        job.hear({"says": "one"})
        supervisor.refuse(until(lambda: heard)[0], RepositoryMissing(base="b", repo="o/r"))
        notes = iter(job)
        assert next(notes) == {"says": "one"}
        with pytest.raises(RepositoryMissing, match="shows no model o/r"):
            next(notes)


def test_what_is_left_is_cancelled(ends):
    gateway, _, heard = ends
    with pytest.raises(KeyError), Job(gateway, 7, "pull"):
        raise KeyError
    assert until(lambda: heard[1:])[0] == {"kind": "cancel", "job": 7}


def test_a_link_that_closes_ends_it(ends):
    gateway, supervisor, heard = ends
    with Job(gateway, 7, "pull") as job:
        until(lambda: heard)
        supervisor.close()
        with pytest.raises(LinkClosed):
            list(job)
