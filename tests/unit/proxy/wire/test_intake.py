"""A client's bytes behind our own check, with gunicorn's parser after it."""

import pytest
from gunicorn.config import Config
from gunicorn.http.errors import NoMoreData

from blazar.proxy.wire.framing import BadFraming
from blazar.proxy.wire.intake import ClientParser, Unreadable

HEAD = b"POST /api/chat?x=1 HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nfoo\r\n3\r\nbar\r\n0\r\nX-Trailer: z\r\n\r\n"
PLAIN = HEAD + b"Content-Length: 6\r\n\r\nfoobar"


def parser(data: bytes, size: int = 8192) -> ClientParser:
    return ClientParser(Config(), iter([data[start:start + size] for start in range(0, len(data), size)]),
                        ("127.0.0.1", 1))


def body(request) -> bytes:
    return b"".join(iter(request.body.read, b""))


@pytest.mark.parametrize("size", [1, 2, 5, 17, 8192])
def test_every_request_of_a_connection_is_read_once_across_any_split(size):
    requests = parser(PLAIN + CHUNKED + b"\r\n" + PLAIN + b"GET / HTTP/1.1\r\nHost: a\r\n\r\n" + CHUNKED, size)
    seen = [(request.method, request.path, body(request)) for request in requests]
    assert seen == [("POST", "/api/chat", b"foobar")] * 3 + [("GET", "/", b""), ("POST", "/api/chat", b"foobar")]


@pytest.mark.parametrize("data", [PLAIN, CHUNKED])
def test_an_unread_body_is_no_request(data):
    requests = parser(data + PLAIN)
    first, second = next(requests), next(requests)
    assert first is not second and body(second) == b"foobar"
    assert next(requests, None) is None


@pytest.mark.parametrize("data", [PLAIN[:-1], CHUNKED[:-3], CHUNKED[:90]])
def test_a_client_that_leaves_within_its_body(data):
    request = next(parser(data))
    with pytest.raises(ConnectionError):
        body(request)


def test_bad_chunks():
    with pytest.raises(BadFraming):
        body(next(parser(HEAD + b"Transfer-Encoding: chunked\r\n\r\n+3\r\nfoo\r\n0\r\n\r\n")))


def test_a_client_that_leaves_within_its_head():
    with pytest.raises(NoMoreData):
        next(parser(HEAD))


def test_a_refusal_keeps_what_the_head_began_with():
    with pytest.raises(Unreadable) as refused:
        next(parser(HEAD + b"Content-Length: +6\r\n\r\nfoobar"))
    assert refused.value.began.startswith(b"POST /api/chat") and refused.value.error.status == 400


def test_what_the_environ_would_confuse_is_taken_out():
    lines = b"X_A: 1\r\nX-A: 2\r\nScript_Name: /x\r\nExpect: 100-continue\r\nBlazar-Expect: 3\r\n\r\n"
    request = next(parser(HEAD + lines))
    assert sorted(request.headers) == [("BLAZAR-EXPECT", "100-continue"), ("HOST", "localhost"), ("X-A", "2")]
    assert not request._expected_100_continue
