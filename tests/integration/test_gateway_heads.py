"""Heads and framing as hostile, old and odd clients send them, raw over a socket (FC-23)."""

import json
import os
import re
import time

import pytest

from tests.support.fake_supervisor import eventually
from tests.support.gateway_under_test import ASK, GatewayUnderTest, post, read_all, read_until
from tests.support.leaving import fin, half, reset
from tests.support.scripted_child import STREAM_HEAD, chunked, delta, event, json_answer

BODY = json.dumps(ASK["openai"][1]).encode()
CHAT = ASK["openai"][0]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("heads")) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    yield shared.fresh()
    assert "Traceback" not in shared.supervisor.log()


def head(*lines: str, first: str = "POST /v1/chat/completions HTTP/1.1", host: str = "Host: localhost\r\n") -> bytes:
    return (f"{first}\r\n{host}" + "".join(f"{line}\r\n" for line in lines) + "\r\n").encode("latin-1")


def refused(gateway, data: bytes, *statuses: int) -> dict:
    """The error's JSON of the one answer to `data`, after which the gateway closes at once."""
    began = time.monotonic()
    with gateway.connect() as sock:
        sock.sendall(data)
        got = read_all(sock)
    assert time.monotonic() - began < 1.5
    top, _, body = got.partition(b"\r\n\r\n")
    assert int(top.split()[1]) in (statuses or (400,)), got
    assert b"Connection: close" in top and b"Content-Type: application/json" in top
    assert len(re.findall(rb"HTTP/1\.1 \d", got)) == 1
    assert gateway.child.received == []
    return json.loads(body)


@pytest.mark.parametrize("lines", [
    ("Content-Length: +5",), ("Content-Length: -1",), ("Content-Length: 1_0",), ("Content-Length : 5",),
    ("Content-Length: 5", "Content-Length: 6"), ("Content-Length: 5", "Content-Length: 5"),
    ("Content-Length: 5", "Transfer-Encoding: chunked"),
    ("Transfer-Encoding: chunked", "Content-Length: 5"), ("Transfer-Encoding: gzip, chunked",),
    ("Transfer-Encoding: chunked", "Transfer-Encoding: identity"), ("X-A: b", " folded"), ("X-A: b\nX-B: c",),
    ("X-A : b",), ("X-A: \0",), ("no colon",), ("Host: other",)])
def test_framing_that_two_could_read_differently_is_refused(gateway, lines):
    told = refused(gateway, head(*lines) + b"hello" + head(first="GET /api/tags HTTP/1.1"))
    assert told["error"]["code"] == "head-refused", told


@pytest.mark.parametrize("first", ["POST /v1/chat/completions", "post /v1/chat/completions HTTP/1.1", "GET / HTTP/2.0",
                                   "GET / HTTP/1.9", "GET  / HTTP/1.1", "GET /\xe9 HTTP/1.1", "G@T / HTTP/1.1",
                                   "GET relative HTTP/1.1", "CONNECT localhost:1 HTTP/1.1", "\x16\x03\x01"])
def test_bad_first_lines(gateway, first):
    refused(gateway, head(first=first))


@pytest.mark.parametrize(("path", "read"), [
    ("/v1/chat/completions", lambda told: told["error"]["message"]), ("/api/chat", lambda told: told["error"]),
    ("/v1/messages", lambda told: {"error": told["error"]["message"]}[told["type"]])])
def test_a_bad_head_is_told_in_the_shape_of_its_path(gateway, path, read):
    told = refused(gateway, head("Content-Length: +5", first=f"POST {path} HTTP/1.1"))
    assert "content-length '+5'" in read(told)


def test_bare_line_ends_are_refused_without_waiting(gateway):
    refused(gateway, b"POST /api/chat HTTP/1.1\nHost: localhost\nContent-Length: 0\n\n")


@pytest.mark.parametrize("lines", [["X: " + "y" * 9000], ["X: y"] * 200, ["X: " + "y" * 7000] * 20],
                         ids=["line", "count", "size"])
def test_absurd_heads_are_a_431(gateway, lines):
    assert refused(gateway, head(*lines), 431)["error"]["code"] == "head-too-large"


def test_an_absurd_path_is_a_431(gateway):
    refused(gateway, head(first="GET /" + "a" * 9000 + " HTTP/1.1"), 431)


def test_a_head_without_end_is_refused_while_it_is_sent(gateway):
    with gateway.connect() as sock, pytest.raises((ConnectionError, StopIteration)):
        sock.sendall(b"GET / HTTP/1.1\r\n")
        for _ in range(1000):
            sock.sendall(b"X: " + b"y" * 1000 + b"\r\n")
        assert b" 431 " in read_all(sock)
        raise StopIteration


@pytest.mark.parametrize("size", [1, 3, 50])
def test_a_head_may_come_in_pieces(gateway, size):
    data = b"\r\n" + post(CHAT, BODY, "Connection: close")
    with gateway.connect() as sock:
        for start in range(0, len(data), size):
            sock.sendall(data[start:start + size])
        assert read_all(sock).startswith(b"HTTP/1.1 200 OK")
    assert gateway.child.received[0].body == BODY


@pytest.mark.parametrize("name", ["SCRIPT_NAME", "Content_Length", "Transfer_Encoding", "X_Api_Key", "Blazar-Expect"])
def test_field_names_that_an_environ_confuses_change_nothing(gateway, name):
    assert gateway.request("POST", CHAT, BODY, {name: "/v1"}).status == 200
    assert gateway.child.received[0].body == BODY


# -- Host ------------------------------------------------------------------------------------------------


def test_http_1_1_needs_a_host(gateway):
    told = refused(gateway, head(first="GET /api/tags HTTP/1.1", host=""))
    assert "no host field" in told["error"]


def test_http_1_0_needs_none(gateway):
    got = gateway.raw(head(first="GET /api/version HTTP/1.0", host=""))
    assert got.startswith(b"HTTP/1.1 200 OK") and b"Connection: close" in got


# -- Expect ----------------------------------------------------------------------------------------------


def test_continue_comes_quickly_and_only_for_a_body_that_is_wanted(gateway):
    with gateway.connect() as sock:
        began = time.monotonic()
        sock.sendall(head("Transfer-Encoding: chunked", "Expect: 100-continue"))
        assert read_until(sock, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        assert time.monotonic() - began < 0.5
    for lines in (["Content-Encoding: gzip"], []):
        with gateway.connect() as sock:
            first = "POST /nope HTTP/1.1" if not lines else "POST /api/chat HTTP/1.1"
            sock.sendall(head("Content-Length: 10", "Expect: 100-continue", *lines, first=first))
            assert read_until(sock, b"\r\n").startswith(b"HTTP/1.1 404 " if not lines else b"HTTP/1.1 415 ")


def test_other_expectations_are_a_417(gateway):
    assert "200-maybe" in refused(gateway, head("Expect: 200-maybe"), 417)["error"]["message"]


def test_an_http_1_0_client_expects_nothing(gateway):
    got = gateway.raw(post(CHAT, BODY, "Expect: 100-continue", version="1.0"))
    assert got.startswith(b"HTTP/1.1 200 OK")


# -- bodies ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("body", [
    b"+5\r\nhello\r\n0\r\n\r\n", b"0x5\r\nhello\r\n0\r\n\r\n", b"-1\r\n", b"5\nhello\r\n0\r\n\r\n", b"\r\n", b" 5\r\n",
    b"5\r\nhelloXX0\r\n\r\n", b"1_0\r\n", b"5" * 5000, b"f" * 16 + b"\r\n", b"5;" + b"x" * 5000,
    b"0\r\n" + b"X: y\r\n" * 5000], ids=lambda body: body[:12].hex())
def test_bad_chunks_are_a_400(gateway, body):
    refused(gateway, head("Transfer-Encoding: chunked") + body)


@pytest.mark.parametrize("dialect", ASK)
@pytest.mark.parametrize("coding", ["gzip", "br", "deflate, gzip"])
def test_coded_bodies_are_a_415(gateway, dialect, coding):
    answer = gateway.ask(dialect, {"Content-Encoding": coding})
    assert answer.status == 415 and answer.headers["connection"] == "close"
    error = answer.json()["error"]
    assert coding in (error if dialect == "ollama" else error["message"])
    assert gateway.child.received == []


def test_identity_is_no_coding(gateway):
    assert gateway.ask("openai", {"Content-Encoding": "Identity"}).status == 200


@pytest.mark.parametrize("dialect", ASK)
def test_an_http_1_0_stream_ends_with_its_connection(gateway, dialect):
    gateway.child.play = lambda talk: talk.send(STREAM_HEAD + chunked(event(delta("one", finish="stop")),
                                                                      b"data: [DONE]\n\n"))
    path, body = ASK[dialect]
    got = gateway.raw(post(path, json.dumps({**body, "stream": True}).encode(), "Connection: keep-alive",
                           version="1.0"))
    top, _, rest = got.partition(b"\r\n\r\n")
    assert b"Transfer-Encoding" not in top and b"Connection: close" in top and b"one" in rest


# -- clients that leave ----------------------------------------------------------------------------------


WITHIN = {
    "a head": b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Le",
    "a body": post(CHAT, BODY)[:-5],
    "a body after an odd head": post(CHAT, BODY, "X_Odd: 1")[:-5],
    "a chunk": head("Transfer-Encoding: chunked") + b"%x\r\n%b" % (len(BODY), BODY[:-5]),
}


@pytest.mark.parametrize("leave", [fin, reset, half])
@pytest.mark.parametrize("sent", WITHIN.values(), ids=WITHIN)
def test_a_client_that_leaves_within_its_request_leaves_nothing(gateway, sent, leave):
    def held():
        return set(os.listdir(f"/proc/{gateway.supervisor.worker_pid()}/fd"))

    def answered():
        witness.sendall(head(first="GET /api/version HTTP/1.1"))
        return read_until(witness, b"}").startswith(b"HTTP/1.1 200 ")

    with gateway.connect() as witness, gateway.connect() as sock:
        assert answered()
        sock.sendall(sent)
        assert answered()  # what was sent before is read by now
        before = held()
        leave(sock)
        gone = eventually(lambda: before - held())
        assert len(gone) == 1 and answered()
    assert gateway.child.received == []


# -- several requests on one connection --------------------------------------------------------------------


def test_pipelined_requests_of_all_framings_are_answered_once_each(gateway):
    gateway.child.play = lambda talk: talk.send(json_answer(b'{"n":%d}' % len(gateway.child.received)))
    chunky = head("Transfer-Encoding: chunked") + b"%x\r\n%b\r\n0\r\nX-T: z\r\n\r\n" % (len(BODY), BODY)
    got = gateway.raw(chunky + post(CHAT, BODY) + b"\r\n" + chunky + post(CHAT, BODY, "Connection: close") + chunky)
    assert [got.count(b'{"n":%d}' % number) for number in range(1, 6)] == [1, 1, 1, 1, 0]
    assert [request.body for request in gateway.child.received] == [BODY] * 4


@pytest.mark.parametrize("first", [
    head("Content-Length: 7", first="POST /nope HTTP/1.1") + b"GET /ap",
    head("Content-Length: 2", first="GET /api/version HTTP/1.1") + b"hi",
    head("Content-Length: 2", first="OPTIONS /api/version HTTP/1.1") + b"hi",
    head("Content-Length: 2", "Content-Encoding: gzip") + b"hi",
    head(first="GET /api/version HTTP/1.0"),
    head("Connection: close", first="GET /api/version HTTP/1.1")],
    ids=["unknown path", "body of a GET", "body of an OPTIONS", "coded body", "old client", "said close"])
def test_nothing_is_done_after_an_answer_that_ends_the_connection(gateway, first):
    got = gateway.raw(first + post(CHAT, BODY))
    assert got.count(b"HTTP/1.1 ") == 1 and b"Connection: close" in got
    assert gateway.child.received == []
