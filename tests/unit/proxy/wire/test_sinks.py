import socket as plain
import time

import gevent
import pytest
from gevent import socket
from gevent.event import Event

from blazar.proxy.exchange import ClientGone, ClientSlow
from blazar.proxy.wire.client import Client
from blazar.proxy.wire.framing import LAST_CHUNK, chunk
from blazar.proxy.wire.sinks import SocketSink
from blazar.proxy.wire.stock import StockClient


@pytest.fixture(params=[Client, StockClient])
def pair(request):
    ours, theirs = socket.socketpair()
    theirs.settimeout(5)
    client = request.param(ours)
    yield client, theirs
    if isinstance(client, Client):
        client.close()
    ours.close()
    theirs.close()


def received(theirs) -> bytes:
    parts = []
    while data := theirs.recv(65536):
        parts.append(data)
    return b"".join(parts)


def play(pair, *, headers=(), raw=False, writes=(b"hello", b" you"), **how) -> bytes:
    ours, theirs = pair
    sink = SocketSink(ours, **how)
    sink.start(200, list(headers), raw_chunked=raw)
    for data in writes:
        sink.write(data)
    sink.finish()
    ours.shut(socket.SHUT_WR) if not sink.closing else None
    return received(theirs)


def test_without_a_length_the_body_is_chunked(pair):
    assert play(pair) == (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: keep-alive\r\n\r\n"
                          + chunk(b"hello") + chunk(b" you") + LAST_CHUNK)


def test_with_a_length_it_is_as_it_is(pair):
    assert play(pair, headers=[("Content-Length", "9")]) == (
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: keep-alive\r\n\r\nhello you")


def test_raw_chunks_pass_unchanged(pair):
    wire = b"0005;x=y\r\nhello\r\n" + LAST_CHUNK
    assert play(pair, raw=True, writes=[wire[:7], wire[7:]]).endswith(b"\r\n\r\n" + wire)


@pytest.mark.parametrize(("raw", "writes"), [
    (False, [b"hello", b" you"]),
    (True, [chunk(b"hello")[:4], chunk(b"hello")[4:] + chunk(b" you"), LAST_CHUNK])])
def test_an_old_client_gets_no_chunks_and_a_close(pair, raw, writes):
    assert play(pair, raw=raw, writes=writes, old=True) == b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nhello you"


def test_head_request_gets_the_headers_alone(pair):
    assert play(pair, headers=[("Content-Length", "9")], headless=True) == (
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nConnection: keep-alive\r\n\r\n")


@pytest.mark.parametrize("how", [{"closing": True}, {"draining": lambda: True}])
def test_close_is_said_and_done(pair, how):
    assert b"\r\nConnection: close\r\n" in play(pair, **how)


def test_unread_body_closes_after_the_client_had_time_to_read(pair):
    ours, theirs = pair
    theirs.sendall(b"x" * 1000)
    sink = SocketSink(ours, unread=True)
    sink.start(413, [("Content-Length", "2")])
    sink.write(b"no")
    ending = gevent.spawn(sink.finish)
    assert received(theirs).endswith(b"Connection: close\r\n\r\nno")
    theirs.close()
    ending.join(timeout=1)
    assert ending.successful(), "it does not wait out its time once the client has closed"


def test_abort_leaves_the_body_visibly_unfinished(pair):
    ours, theirs = pair
    sink = SocketSink(ours)
    sink.start(200, [])
    sink.write(b"hello")
    sink.abort()
    assert received(theirs).endswith(chunk(b"hello"))


def test_abort_of_a_body_without_framing_is_a_reset():
    listener = socket.create_server(("127.0.0.1", 0))
    theirs = plain.create_connection(listener.getsockname(), timeout=5)
    ours, _ = listener.accept()
    sink = SocketSink(StockClient(ours), old=True)
    sink.start(200, [])
    sink.abort()
    ours.close()
    with pytest.raises(ConnectionResetError):
        while theirs.recv(100):
            pass
    theirs.close()
    listener.close()


def test_a_client_that_left_is_noticed_while_nothing_is_sent(pair):
    ours, theirs = pair
    sink = SocketSink(ours)
    noticed = Event()
    sink.watch(noticed.set)
    gevent.sleep(0)
    assert not sink.gone
    theirs.close()
    assert noticed.wait(2)
    sink.unwatch()
    assert sink.gone
    with pytest.raises(ClientGone):
        sink.start(200, [])


def test_a_pipelined_request_is_no_departure_and_stays_unread(pair):
    ours, theirs = pair
    sink = SocketSink(ours)
    sink.watch(lambda: pytest.fail("it is still there"))
    theirs.sendall(b"GET / HTTP/1.1\r\n\r\n")
    gevent.sleep(0.05)
    sink.unwatch()
    assert not sink.gone and ours.recv(100, within=1) == b"GET / HTTP/1.1\r\n\r\n"


def test_a_client_that_does_not_read_is_given_up(pair):
    ours, _ = pair
    sink = SocketSink(ours, write_timeout=0.05)
    sink.start(200, [])
    sweeping = gevent.get_hub().loop.timer(0.01, repeat=0.01)
    sweeping.start(lambda: ours.expire() if isinstance(ours, Client) and ours.deadline < time.monotonic() else None)
    with pytest.raises(ClientSlow):
        while True:
            sink.write(b"x" * 100_000)
    assert sink.gone
    sweeping.close()


def test_the_head_leaves_with_the_first_of_the_body(pair):
    ours, theirs = pair
    sink = SocketSink(ours)
    sink.start(200, [("Content-Length", "5")])
    with pytest.raises(BlockingIOError):
        theirs._sock.recv(100)
    sink.write(b"hello")
    assert theirs._sock.recv(1000).endswith(b"\r\n\r\nhello")
