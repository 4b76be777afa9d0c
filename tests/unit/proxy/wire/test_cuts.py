"""Whole requests and whole answers, cut in two at every byte, through all of the gateway: nothing may change."""

import json
import re
from itertools import count

import pytest

from tests.support.corpus import Reader, cases
from tests.support.gateway_under_test import ASK, post
from tests.support.one_loop import LoopChild, OneLoop, settled
from tests.support.scripted_child import STREAM_HEAD, chunked, json_answer

VALID = [case for case in cases() if not case.hostile]
LAST = b"GET /api/version HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
"""Answered only when both sides agree on where the request before ended."""
SAID = [{"choices": [{"delta": {"content": "one"}}]},
        {"choices": [{"delta": {"content": " \u00e9 two"}, "finish_reason": "stop"}]}]
EVENTS = [*(f"data: {json.dumps(one, ensure_ascii=False)}\n\n".encode() for one in SAID), b"data: [DONE]\n\n"]
WHOLE = b"".join(EVENTS)
ANSWERS = {
    # name: what the child says, and whether it closes then
    "chunks": (STREAM_HEAD + chunked(*EVENTS).replace(b"0\r\n\r\n", b"0;x\r\nX-T: z\r\n\r\n"), False),
    "length": (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: %d\r\n\r\n%b"
               % (len(WHOLE), WHOLE), False),
    "until close": (b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + WHOLE, True),
    "error": (json_answer(b'{"error":{"code":400,"message":"one word too many","type":"invalid_request_error"}}',
                          "400 Bad Request"), False),
    "json": (json_answer(b'{"choices":[{"message":{"content":"one \xc3\xa9 two"}}]}'), False),
}
ASKED = [("openai", "json", False), *((dialect, "chunks", False) for dialect in ASK if dialect != "openai"),
         *((dialect, name, True) for dialect in ASK for name in ANSWERS if name != "json")]
"""Dialect, answer, and whether the client wants a stream. The child streams whatever a translated client wants."""
CHANGING = re.compile(rb'"(id|item_id|created_at|completed_at|\w+_duration)": ?("[^"]*"|\d+)')


@pytest.fixture(scope="module")
def child():
    """Answers with JSON, at once."""
    child = LoopChild(lambda sock, body: True)
    yield child
    child.stop()


@pytest.fixture(scope="module")
def loop(child, tmp_path_factory):
    loop = OneLoop(tmp_path_factory.mktemp("cuts"), child.address)
    yield loop
    loop.close()
    assert loop.worker.faults == child.faults == []


# -- requests ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("case", VALID, ids=lambda case: case.name)
@pytest.mark.parametrize("nudged", [False, True], ids=["our own", "gunicorn's parser"])
def test_a_request_at_every_byte(loop, child, case, nudged):
    child.play = lambda sock, body: sock.sendall(ANSWERS["json"][0]) is None
    data = case.nudged() if nudged else case.data
    wanted = case.expected["answers"] + [200] * case.expected["open"]
    last = LAST if case.expected["open"] else b""
    bodies = set()
    for cut in range(1, len(data)):
        child.received.clear()
        with loop.connect() as sock:
            sock.sendall(data[:cut])
            settled()
            sock.sendall(data[cut:] + last)
            assert list(statuses(sock, case.data.startswith(b"HEAD"))) == wanted, cut
        assert len(child.received) == case.expected["child"], cut
        bodies.update(child.received)
    assert len(bodies) <= 1


def statuses(sock, headless):
    reader = Reader(sock)
    while answered := reader.answer(headless):
        headless = False
        yield answered.status


# -- answers -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dialect", "name", "stream"), ASKED)
def test_an_answer_at_every_byte(loop, child, dialect, name, stream):
    whole, closes = ANSWERS[name]
    cuts = count()

    def play(sock, body):
        cut = next(cuts)
        if cut:
            sock.sendall(whole[:cut])
            settled()
        sock.sendall(whole[cut:])
        return not closes
    child.play = play
    child.received.clear()
    path, body = ASK[dialect]
    kept = {"store": False} if dialect == "responses" else {}
    request = post(path, json.dumps({**body, "stream": stream, **kept}).encode())
    told = set()
    with loop.connect() as sock:
        reader = Reader(sock)
        for _ in range(len(whole)):
            sock.sendall(request)
            answer = reader.answer()
            told.add((answer.status, CHANGING.sub(rb"\1", answer.body)))
    assert len(told) == 1 and len(child.received) == len(whole)
    status, said = told.pop()
    assert status == (400 if name == "error" else 200)
    assert (b"one word too many" if name == "error" else b"one") in said
