"""Every way in leads through the same checks and the same pipeline: tcp by the short way and by gunicorn's parser, TLS,
and a gunicorn that is not ours."""

import json

import pytest

from tests.support.fake_supervisor import eventually
from tests.support.fronts import FRONTS, audit, open_front
from tests.support.gateway_under_test import ASK, is_error_of, read_all

KEY = {"Authorization": "Bearer sk-ann"}
CONFIG = {"keys": [{"name": "ann", "key": "sk-ann", "max_concurrent": 1}]}
ASKED = [(dialect, stream) for dialect in ASK for stream in (False, True)]
OWN_TO_EACH = ("time", "id", "first_byte_ms", "total_ms", "load_ms")


@pytest.fixture(scope="module")
def fronts(tmp_path_factory):
    """All of them, open."""
    opened = {}
    try:
        for name in FRONTS:
            opened[name] = open_front(name, tmp_path_factory.mktemp(name), config=CONFIG)
            opened[name].__enter__()
        yield opened
    finally:
        for front in opened.values():
            front.__exit__()


@pytest.fixture(params=FRONTS)
def front(fronts, request):
    return fronts[request.param].fresh()


@pytest.mark.parametrize("dialect", ASK)
@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}])
def test_without_the_key_there_is_a_401(front, dialect, headers):
    answer = front.ask(dialect, headers)
    assert answer.status == 401 and "API key" in is_error_of(dialect, answer)
    assert front.child.received == []


def test_one_request_of_each_kind_gives_equal_audit_lines_and_answers(fronts):
    told = {name: asked(front.fresh()) for name, front in fronts.items()}
    answers, lines = told["tcp"]
    assert [line["status"] for line in lines] == [200] * len(ASKED) + [404, 499]
    assert {line["key"] for line in lines} == {"ann"} and lines[-1]["client_gone"]
    for name, (same_answers, same_lines) in told.items():
        assert (same_answers, same_lines) == (answers, lines), name


def asked(front):
    """Statuses and types of the answers, and the audit lines without what is each front's own."""
    before = len(audit(front))
    answers = [front.ask(dialect, KEY, stream=stream) for dialect, stream in ASKED]
    answers += [front.ask("openai", KEY, messages=5, stream="yes"), front.ask("ollama", KEY, model="nobody")]
    leave(front)
    lines = eventually(lambda: len(audit(front)) >= before + len(ASKED) + 2 and audit(front)[before:])
    return ([(answer.status, answer.headers["content-type"]) for answer in answers],
            [{name: value for name, value in line.items() if name not in OWN_TO_EACH} for line in lines])


def leave(front):
    """Go away while the child thinks. The key may do one thing at a time, so all before is over by then."""
    front.child.play = lambda talk: talk.client_closes()
    path, body = ASK["openai"]
    sock = eventually(lambda: started(front, path, json.dumps(body).encode()))
    sock.close()


def started(front, path, body):
    before = len(front.child.received)
    sock = front.connect()
    sock.sendall(front.written(path, body, "Authorization: Bearer sk-ann"))
    eventually(lambda: len(front.child.received) > before)
    return sock


def test_http_1_0_is_served(front):
    with front.connect() as sock:
        sock.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")
        assert read_all(sock).startswith(b"HTTP/1.1 200 OK")
