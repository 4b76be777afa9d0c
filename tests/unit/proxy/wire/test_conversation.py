"""The lean front end: every split of a connection's bytes, odd requests among ordinary ones, clients that leave."""

import contextlib
import gc
import json
import re
from types import SimpleNamespace

import gevent
import pytest
from gevent import socket
from gunicorn.config import Config

from blazar.proxy.exchange import ClientGone
from blazar.proxy.request import REQUEST, Request, Terms
from blazar.proxy.wire import conversation
from blazar.proxy.wire.client import Client
from blazar.proxy.wire.conversation import Conversation, Door
from blazar.proxy.wire.lean import CLIENT, FIELDS
from blazar.proxy.wire.request_head import check_head
from blazar.proxy.wire.sinks import SocketSink
from blazar.proxy.wire.turns import Turns
from tests.support.leaving import fin, half, reset

ORDINARY = b"POST /a?x=1 HTTP/1.1\r\nHost: h\r\nX-One: 1\r\nX-One: 2\r\nContent-Length: 5\r\n\r\nhello"
EMPTY = b"\r\nGET /b HTTP/1.1\r\nHost: h\r\n\r\n"
CHUNKED = b"POST /c HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"
ESCAPED = b"GET /d%20d HTTP/1.1\r\nHost: h\r\n\r\n"
LAST = b"GET /e HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
ALL = ORDINARY + EMPTY + CHUNKED + ESCAPED + ORDINARY + LAST


class Worker:
    """What a conversation needs of gunicorn's worker; its application echoes."""

    parting = False

    def __init__(self) -> None:
        self.cfg = Config()
        self.app = SimpleNamespace(gateway=SimpleNamespace(pace=lambda: None))
        self.seen: list[dict] = []
        self.met: list[tuple] = []
        self.refused: list[str] = []
        self.lost: list[BaseException | None] = []
        """Why bodies came to no end."""

    @property
    def wsgi(self):
        return self

    def __call__(self, environ, start_response):
        request = environ[REQUEST] = Request(environ, Terms(max_body=1000, write_timeout=5.0))
        try:
            body = request.body()
        except ClientGone as gone:
            self.lost.append(gone.__context__)
            return
        self.seen.append({"lean": FIELDS in environ, "method": request.method, "path": request.path,
                          "query": environ["QUERY_STRING"], "headers": request.headers, "body": body.decode()})
        self.met.append((environ["REMOTE_ADDR"], environ[CLIENT], environ["gunicorn.socket"]))
        request.answer(200, json.dumps(len(self.seen)).encode())

    def refuse_head(self, client, began, error):
        self.refused.append(error.slug)
        sink = SocketSink(client, closing=True)
        sink.start(400, [("Content-Length", "0")])
        sink.finish()


class Talk:
    """A conversation over a pair of sockets, in a greenlet."""

    def __init__(self, door: Door | None = None, address: str = "127.0.0.1", tcp: bool = False) -> None:
        self.worker = Worker()
        self.ours, self.theirs = tcp_pair() if tcp else socket.socketpair()
        self.left: OSError | None = None
        """How the client has left, where the conversation ended with that."""
        self.theirs.settimeout(5)
        self.client = Client(self.ours)
        self.door = door or Door(self.worker.cfg, self.ours, Turns(gevent.get_hub().loop))
        self.running = gevent.spawn(self._run, Conversation(self.worker, self.door, self.client, (address, 1)))

    def _run(self, conversation) -> None:
        try:
            conversation.run()
        except OSError as error:
            self.left = error
        finally:
            self.client.close()
            self.ours.close()

    def send(self, *pieces: bytes) -> "Talk":
        for piece in pieces:
            self.theirs.sendall(piece)
            gevent.sleep(0.0005)
        return self

    def answers(self) -> bytes:
        got = b""
        while data := self.theirs.recv(65536):
            got += data
        self.theirs.close()
        self.running.get(timeout=2)
        return re.sub(rb"req_\w+", b"ID", got)


def tcp_pair():
    with contextlib.closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(1)
        theirs = socket.create_connection(listener.getsockname())
        return listener.accept()[0], theirs


def test_every_split_of_a_connection_gives_the_same():
    whole = Talk().send(ALL)
    expected, seen = whole.answers(), whole.worker.seen
    assert [one["path"] for one in seen] == ["/a", "/b", "/c", "/d d", "/a", "/e"]
    assert [one["lean"] for one in seen] == [True, True, False, False, True, True]
    assert seen[0]["body"] == "hello" and seen[0]["headers"]["x-one"] == "1,2" and seen[0]["query"] == "x=1"
    for cut in range(1, len(ALL)):
        talk = Talk().send(ALL[:cut], ALL[cut:])
        assert (talk.answers(), talk.worker.seen) == (expected, seen), cut


def test_byte_by_byte():
    talk = Talk().send(*(ORDINARY[at:at + 1] for at in range(len(ORDINARY))), CHUNKED + LAST)
    assert talk.answers().count(b"HTTP/1.1 200 OK") == 3


@pytest.mark.parametrize("line", [b"Upgrade: h2c", b"Expect: 100-continue", b"X_A: 1"])
def test_what_is_not_ordinary_reaches_the_same_application(line):
    lean = Talk().send(ORDINARY + LAST)
    odd = Talk().send(ORDINARY.replace(b"\r\nHost", b"\r\n" + line + b"\r\nHost", 1) + LAST)
    assert lean.answers().count(b" 200 OK") == odd.answers().count(b" 200 OK") == 2
    assert not odd.worker.seen[0]["lean"]
    for one in (lean, odd):
        one.worker.seen[0].pop("lean")
        one.worker.seen[0]["headers"].pop("upgrade", None)
    assert lean.worker.seen == odd.worker.seen


@pytest.mark.parametrize("head", [
    b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
    b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length : 5\r\n\r\nhello", b"GET / HTTP/1.1\nHost: h\n\n",
    b"GET / HTTP/1.1\r\nHost: h\r\nX: a\rb\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"])
def test_one_check_stands_before_both_ways(head):
    talk = Talk().send(EMPTY + head + EMPTY)
    assert talk.answers().count(b"HTTP/1.1 400") == 1
    assert len(talk.worker.refused) == len(talk.worker.seen) == 1


@pytest.mark.parametrize("data", [ORDINARY, CHUNKED], ids=["ordinary", "chunked"])
@pytest.mark.parametrize("leave", [fin, half, reset])
def test_a_client_that_leaves_anywhere_ends_the_conversation(data, leave):
    for cut in range(0, len(data), 3):
        talk = Talk(tcp=True).send(data[:cut])
        leave(talk.theirs)
        talk.running.get(timeout=2)
        assert talk.worker.seen == [] and talk.worker.refused == [], cut
        met = talk.worker.lost or [talk.left]
        assert leave is not reset or isinstance(met[0], ConnectionResetError), (cut, met)
        talk.theirs.close()


def test_a_head_is_checked_once_for_all_connections_and_tells_nothing_of_another(monkeypatch):
    checked = []
    monkeypatch.setattr(conversation, "check_head", lambda raw: checked.append(raw) or check_head(raw))
    first = Talk(address="10.0.0.1").send(ORDINARY)
    longer = ORDINARY.replace(b": 5", b": 11") + b" world"
    second = Talk(first.door, "10.0.0.2").send(longer, ORDINARY, LAST)
    first.send(longer, LAST)
    assert first.answers().count(b" 200 OK") == second.answers().count(b" 200 OK") == 3
    assert checked == [ORDINARY.partition(b"\r\n\r\n")[0], LAST[:-4]]
    assert [one["body"] for one in second.worker.seen] == ["hello world", "hello", ""]
    assert [one["body"] for one in first.worker.seen] == ["hello", "hello world", ""]
    for talk, address in ((first, "10.0.0.1"), (second, "10.0.0.2")):
        assert talk.worker.met == [(address, talk.client, talk.ours)] * 3


def test_a_deadline_that_passes_ends_an_idle_conversation():
    talk = Talk()
    gevent.sleep(0)
    assert 0 < talk.client.deadline < float("inf")
    gevent.get_hub().loop.run_callback(talk.client.expire)
    assert talk.answers() == b""


def test_a_request_leaves_nothing_that_only_a_search_for_cycles_would_find():
    gc.collect()
    gc.disable()
    try:
        before = alive(Request)
        assert Talk().send(ORDINARY * 20 + LAST).answers().count(b"HTTP/1.1 200 OK") == 21
        assert alive(Request) == before
    finally:
        gc.enable()


def alive(kind: type) -> int:
    return sum(isinstance(one, kind) for one in gc.get_objects())
