"""A corpus of valid and hostile requests on every front, each cut in two at random places as well (FC-23)."""

import json
import random

import pytest

from tests.support.corpus import Case, Reader, cases
from tests.support.fronts import open_front

CASES = cases()
LAST = b"GET /api/version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
"""Answered only when both sides agree on where the request before ended."""


@pytest.fixture(scope="module", params=["tcp", "tls"])
def shared(request, tmp_path_factory):
    with open_front(request.param, tmp_path_factory.mktemp(request.param)) as front:
        yield front


@pytest.fixture
def front(shared):
    yield shared.fresh()
    assert "Traceback" not in shared.supervisor.log()


@pytest.fixture(scope="module")
def stock(tmp_path_factory):
    with open_front("stock", tmp_path_factory.mktemp("stock")) as front:
        yield front


def named(wanted=lambda case: True):
    return pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES if wanted(case)])


def play(front, case: Case, *pieces: bytes) -> list[int]:
    """Send a case in these pieces and check all that it expects; the statuses."""
    statuses = []
    with front.connect() as sock:
        for piece in pieces:
            sock.sendall(piece)
        reader = Reader(sock)
        for _ in case.expected["answers"]:
            answered = reader.answer(headless=case.data.startswith(b"HEAD"))
            assert answered is not None, f"closed after {statuses}"
            statuses.append(answered.status)
        if case.expected["open"]:
            sock.sendall(LAST)
            last = reader.answer()
            assert last is not None and last.status == 200 and b"version" in last.body
        elif answered.status != 100:
            assert answered.fields["connection"] == "close"
        if answered.status >= 400 and answered.body:
            error = json.loads(answered.body)["error"]
            assert "code" not in case.expected or isinstance(error, str) or error["code"] == case.expected["code"]
        assert reader.answer() is None, "an answer to what nobody asked"
    assert len(front.child.received) == case.expected["child"]
    return statuses


@named()
def test_on_our_front(front, case):
    assert play(front, case, case.data) == case.expected["answers"]


@named()
def test_by_way_of_gunicorns_parser(front, case):
    assert play(front, case, case.nudged()) == case.expected["answers"]


@named()
def test_cut_in_two(front, case):
    cut = random.Random(case.name).randrange(1, len(case.data))
    assert play(front, case, case.data[:cut], case.data[cut:]) == case.expected["answers"]


@named(lambda case: not case.hostile and case.expected.get("stock", True))
def test_on_a_gunicorn_that_is_not_ours(stock, case):
    assert play(stock.fresh(), case, case.data) == case.expected["answers"]
