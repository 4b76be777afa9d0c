"""What engines answer to /metrics, by real sockets: each is read, or left out within its time."""

import os
import threading
import time

import pytest

from blazar.supervisor.engine_page import LIMIT, LONGEST, LeftOut, read_page
from tests.support.fake_supervisor import endpoint
from tests.support.scripted_child import ScriptedChild

PAGE = b"# TYPE llamacpp:n_decode_total counter\nllamacpp:n_decode_total 3\n# TYPE blazar_mine gauge\nblazar_mine 1\n"


def answer(body=PAGE, status="200 OK", more=""):
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\n{more}\r\n".encode() + body


def reason(play):
    with ScriptedChild(play) as child, pytest.raises(LeftOut) as raised:
        read_page(endpoint("m:q4_0", child.address), limit=0.5)
    return str(raised.value)


def sends(data):
    def play(talk):
        talk.send(data)
        talk.close()
    return play


@pytest.mark.parametrize("where", ["tcp", "unix"])
def test_a_page(where, tmp_path):
    with ScriptedChild(sends(answer()), 0 if where == "tcp" else str(tmp_path / "s")) as child:
        [family] = read_page(endpoint("m:q4_0", child.address))
        assert (family.name, family.kind, family.samples[0].value) == ("llamacpp:n_decode_total", "counter", "3")
        [asked] = child.received
        assert asked.head.startswith(b"GET /metrics HTTP/1.1") and asked.fields["authorization"] == "Bearer s3cret"
        assert asked.fields["connection"] == "close"


@pytest.mark.parametrize("name", ["Content-Length", "content-length", "CONTENT-LENGTH"])
def test_an_engine_that_does_not_close_the_connection(name):
    """The page is there once its length is: nobody waits for the end of a connection that stays."""
    over = threading.Event()

    def play(talk):
        for part in (f"HTTP/1.1 200 OK\r\nServer: x\r\n{name}: ", f"{len(PAGE)}\r", "\n\r\n", PAGE[:9], PAGE[9:]):
            talk.send(part if isinstance(part, bytes) else part.encode())
        over.wait(20)
    try:
        with ScriptedChild(play) as child:
            assert len(read_page(endpoint("m:q4_0", child.address), limit=10)) == 1
    finally:
        over.set()


def test_an_answer_in_chunks():
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in (PAGE[:9], PAGE[9:])) + b"0\r\n\r\n"
    with ScriptedChild(sends(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + body)) as child:
        assert len(read_page(endpoint("m:q4_0", child.address))) == 1


@pytest.mark.parametrize("status", ["404 Not Found", "501 Not Implemented"])
def test_an_engine_that_tells_nothing_is_no_trouble(status):
    with ScriptedChild(sends(answer(b"{}", status))) as child:
        assert read_page(endpoint("m:q4_0", child.address)) == []


@pytest.mark.parametrize(("data", "word"), [
    (b"", "unreachable"), (answer(status="503 Service Unavailable"), "unreachable"), (b"garbage\r\n\r\n", "garbage"),
    (answer(b"<html>"), "garbage"), (answer(b"\xff\xfe"), "garbage"), (answer()[:-9], "garbage"),
    (b"HTTP/1.1 200 OK\r\nContent-Le", "garbage"), (b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 999, "garbage"),
    (answer(b"a 1\n" * (LONGEST // 4)), "size"), (answer(b"a 1\na 1\n"), "garbage")])
def test_what_is_left_out(data, word):
    assert reason(sends(data)) == word


def test_one_that_hangs_and_one_that_never_ends_are_left_out_in_time():
    over = threading.Event()

    def hang(talk):
        over.wait(20)

    def drip(talk):
        while not over.wait(0.05):
            talk.send(b"H")
    for play in (hang, drip):
        began = time.monotonic()
        assert reason(play) == "time"
        assert 0.4 < time.monotonic() - began < 5
    over.set()
    assert LIMIT <= 2


def test_nobody_there_and_a_stranger_at_the_socket(tmp_path):
    with pytest.raises(LeftOut, match="unreachable"):
        read_page(endpoint("m:q4_0", ("127.0.0.1", 9)))
    with ScriptedChild(sends(answer()), str(tmp_path / "s")) as child, pytest.raises(LeftOut, match="unreachable"):
        read_page(endpoint("m:q4_0", child.address, pid=1))
    assert os.getpid() != 1
