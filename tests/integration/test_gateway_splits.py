"""Requests and answers cut in two at every byte, on a connection that goes on: nothing may change."""

import json
import re
import time

import pytest

from tests.support.corpus import Reader, cases
from tests.support.fronts import open_front
from tests.support.gateway_under_test import ASK, GatewayUnderTest, post
from tests.support.scripted_child import STREAM_HEAD, chunked, delta, events, json_answer

REQUESTS = [case for case in cases() if case.name in (
    "valid-post-length", "valid-post-chunk-extension", "valid-post-trailer", "valid-three-framings-pipelined",
    "valid-body-looks-like-a-request")]
GAP = 0.0004
"""Seconds in which a piece arrives on its own."""
BUFFERED = json_answer(b'{"choices":[{"message":{"content":"one two"}}]}')
STREAMED = STREAM_HEAD + chunked(*events([delta("one"), delta("\u00e9 two", finish="stop")])).replace(
    b"0\r\n\r\n", b"0;x\r\nX-T: z\r\n\r\n")
CHANGING = re.compile(rb'"(id|created_at|\w+_duration)": ?("[^"]*"|\d+)')


@pytest.fixture(scope="module", params=["tcp", "tls"])
def front(request, tmp_path_factory):
    with open_front(request.param, tmp_path_factory.mktemp(request.param)) as front:
        yield front
        assert "Traceback" not in front.supervisor.log()


@pytest.mark.parametrize("case", REQUESTS, ids=lambda case: case.name)
def test_a_request_at_every_byte(front: GatewayUnderTest, case):
    front.fresh()
    with front.connect() as sock:
        reader = Reader(sock)
        for cut in range(1, len(case.data)):
            sock.sendall(case.data[:cut])
            time.sleep(GAP)
            sock.sendall(case.data[cut:])
            assert [reader.answer().status for _ in case.expected["answers"]] == case.expected["answers"], cut
    assert len(front.child.received) == case.expected["child"] * (len(case.data) - 1)
    assert len({request.body for request in front.child.received}) == 1


@pytest.mark.parametrize("dialect", ["openai", "ollama", "anthropic"])
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_at_every_byte(front: GatewayUnderTest, dialect, stream):
    front.fresh()
    whole = STREAMED if stream or dialect != "openai" else BUFFERED
    path, body = ASK[dialect]
    request = post(path, json.dumps({**body, "stream": stream}).encode())
    cuts = iter(range(len(whole)))

    def play(talk):
        cut = next(cuts)
        talk.send(whole[:cut])
        time.sleep(GAP if cut else 0)
        talk.send(whole[cut:])
    front.child.play = play
    with front.connect() as sock:
        reader = Reader(sock)
        bodies = set()
        for _ in range(len(whole)):
            sock.sendall(request)
            answer = reader.answer()
            assert answer.status == 200
            bodies.add(CHANGING.sub(rb"\1", answer.body))
    assert len(bodies) == 1 and b"one" in bodies.pop()
    assert len(front.child.received) == len(whole)
