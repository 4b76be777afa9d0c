"""What passes through a KeepingSink: to whom, when, and what is kept of it."""

import gc
import weakref
from types import SimpleNamespace

import pytest
from gevent import socket

from blazar.proxy.exchange import ClientGone
from blazar.proxy.keeping import KeepingSink
from blazar.proxy.resources import completions, responses
from blazar.proxy.wire.client import Client
from blazar.proxy.wire.framing import LAST_CHUNK, chunk
from blazar.proxy.wire.sinks import SocketSink
from blazar.proxy.writing import Writing
from tests.support.exchanges import exchange_of
from tests.support.wire import dialects

EVENTS = [b'data: {"a":1}\n\n', b'data: {"b":"data: [DONE]"}\n\n', b"data: [DONE]\n\n"]


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    theirs.settimeout(5)
    client = Client(ours)
    yield client, theirs
    client.close()
    ours.close()
    theirs.close()


class Watched:
    """A sink around a real one, that notes what its client had when something was kept."""

    def __init__(self, pair, streams, most=1000):
        self.client, self.theirs = pair
        self.seen = b""
        self.kept = []
        self.sink = KeepingSink(SocketSink(self.client), streams, self._keep, most)

    def _keep(self, body):
        self.kept.append((body, self.received()))

    def received(self):
        self.theirs.setblocking(False)
        try:
            while data := self.theirs.recv(65536):
                self.seen += data
        except BlockingIOError:
            pass
        return self.seen


def test_a_stream_passes_at_once_but_for_its_last_event(pair):
    watched = Watched(pair, streams=True)
    watched.sink.start(200, [], raw_chunked=True)
    for number, event in enumerate(EVENTS[:2]):
        watched.sink.write(chunk(event))
        assert watched.received().endswith(chunk(EVENTS[number]))
    before = watched.received()
    watched.sink.write(chunk(EVENTS[2]) + LAST_CHUNK)
    watched.sink.finish()
    assert watched.kept == [(b"".join(EVENTS), before)]
    assert watched.received() == before + chunk(EVENTS[2]) + LAST_CHUNK


@pytest.mark.parametrize("size", [1, 2, 5])
def test_however_it_is_cut(pair, size):
    watched = Watched(pair, streams=True)
    watched.sink.start(200, [], raw_chunked=True)
    wire = b"".join(map(chunk, EVENTS)) + LAST_CHUNK
    for start in range(0, len(wire), size):
        watched.sink.write(wire[start:start + size])
    watched.sink.finish()
    [(body, seen)] = watched.kept
    assert body == b"".join(EVENTS) and not seen.endswith(b"DONE]\n\n\r\n" + LAST_CHUNK)
    assert b"[DONE]\n" not in seen and watched.received().endswith(wire)


def test_a_plain_answer_waits_until_it_is_kept(pair):
    watched = Watched(pair, streams=False)
    watched.sink.start(200, [("Content-Length", "5")])
    watched.sink.write(b"abc")
    watched.sink.write(b"de")
    watched.sink.finish()
    [(body, seen)] = watched.kept
    assert body == b"abcde" and b"a" not in seen.partition(b"\r\n\r\n")[2]
    assert watched.received().endswith(b"\r\n\r\nabcde")


@pytest.mark.parametrize("streams", [True, False])
def test_one_that_is_too_large_passes_and_is_not_kept(pair, streams):
    watched = Watched(pair, streams, most=7)
    watched.sink.start(200, [("Content-Length", "11")])
    for piece in (b"abcd", b"efgh", b"ijk"):
        watched.sink.write(piece)
    assert watched.received().endswith(b"abcdefghijk")
    watched.sink.finish()
    assert watched.kept == []


def test_errors_and_what_broke_off_are_not_kept(pair):
    watched = Watched(pair, streams=False)
    watched.sink.start(400, [("Content-Length", "3")])
    watched.sink.write(b"bad")
    watched.sink.finish()
    assert watched.kept == [] and watched.received().endswith(b"bad") and watched.sink.status == 400
    watched.sink.write(b"more")
    watched.sink.abort()
    assert watched.kept == [] and watched.sink.closing and not watched.received().endswith(b"more")


def test_a_client_that_has_gone_is_told_of(pair):
    watched = Watched(pair, streams=True)
    watched.sink.start(200, [])
    assert watched.sink.started and not watched.sink.gone and watched.sink.direct() is None
    assert isinstance(watched.sink.departed(), ClientGone) and watched.sink.gone


@pytest.mark.parametrize("resource", [completions, responses])
def test_an_exchange_whose_answer_was_kept_is_gone_at_once(monkeypatch, resource):
    """Its body may be large, and Python searches for cycles now and then."""
    made, keeps = [], []
    if resource is responses:
        made.append(dialects()["responses"].parse("create", b'{"model":"m","input":"x"}', {}, "r"))
    else:
        made.append(exchange_of(payload={"store": True, "model": "m"}, body=b'{"messages":[]}', sink="a sink"))
    gone = weakref.ref(made[0])
    monkeypatch.setattr(resource, "opened", lambda *_: made.pop())
    gateway = SimpleNamespace(supervisor=None, writing=Writing(), answering=lambda _: lambda exchange: keeps.append(
        exchange.keep is not None or isinstance(exchange.sink, KeepingSink)))
    gc.disable()
    try:
        resource.create(gateway, SimpleNamespace(api_key=None, sink="a sink"), SimpleNamespace(stages=()))
        assert keeps == [True] and gone() is None
    finally:
        gc.enable()
