"""One request as a resource sees it."""

import io
import time

import pytest
from gevent import socket

from blazar.errors import BodyTooLarge, CodingRefused, RequestStalled
from blazar.proxy.exchange import ClientGone
from blazar.proxy.request import Request, Terms


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


def request(pair, body, read_timeout=5.0, **environ) -> Request:
    return Request({"REQUEST_METHOD": "POST", "PATH_INFO": "/api/chat", "gunicorn.socket": pair[0],
                    "SERVER_PROTOCOL": "HTTP/1.1", "wsgi.input": body, **environ},
                   Terms(max_body=1000, write_timeout=5.0, read_timeout=read_timeout))


class Trickle:
    """A body that comes from a socket."""

    def __init__(self, sock) -> None:
        self.read = sock.recv


def test_the_whole_body(pair):
    asked = request(pair, io.BytesIO(b"hello"), CONTENT_LENGTH="5")
    assert asked.sink.unread and asked.body() == b"hello" and not asked.sink.unread


def test_a_body_that_stalls(pair):
    asked = request(pair, Trickle(pair[0]), read_timeout=0.2, CONTENT_LENGTH="10")
    pair[1].sendall(b"hello")
    began = time.monotonic()
    with pytest.raises(RequestStalled) as stalled:
        asked.body()
    assert stalled.value.status == 408 and 0.15 < time.monotonic() - began < 2
    assert asked.sink.unread


def test_a_body_that_ends_early(pair):
    with pytest.raises(ClientGone):
        request(pair, io.BytesIO(b"hell"), CONTENT_LENGTH="5").body()


@pytest.mark.parametrize("environ", [{"CONTENT_LENGTH": "1001"}, {"HTTP_TRANSFER_ENCODING": "chunked"}])
def test_a_body_over_the_limit(pair, environ):
    with pytest.raises(BodyTooLarge):
        request(pair, io.BytesIO(b"x" * 1001), **environ).body()


def test_a_coded_body_is_neither_wanted_nor_read(pair):
    asked = request(pair, io.BytesIO(b"hello"), CONTENT_LENGTH="5", HTTP_CONTENT_ENCODING="gzip",
                    HTTP_BLAZAR_EXPECT="100-continue")
    with pytest.raises(CodingRefused, match="gzip"):
        asked.body()
    assert asked.sink.unread
    pair[0].close()
    assert pair[1].recv(10) == b""


@pytest.mark.parametrize(("target", "host", "meant"), [
    ("/x", "localhost:1", "localhost:1"), ("http://evil.example/x", "localhost", "evil.example"), ("*", "a", "a")])
def test_the_host_that_is_meant(pair, target, host, meant):
    assert request(pair, io.BytesIO(), RAW_URI=target, HTTP_HOST=host).host == meant
