"""The gateway behind `tls_cert` and `tls_key`: the same answers, streams, cancellations and refusals, encrypted."""

import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
import threading
import time

import pytest

from blazar.supervisor.gateway import LAUNCHER
from tests.support.certificates import certificate
from tests.support.daemon import ROOT, Daemon
from tests.support.fake_supervisor import eventually
from tests.support.gateway_under_test import ASK, MODEL, GatewayUnderTest, post, read_all, read_until
from tests.support.leaving import reset
from tests.support.scripted_child import STREAM_HEAD, chunked, delta, event, json_answer

AT_ONCE = 0.2
"""Seconds between the client's end and the end of the child's connection, on a busy machine."""
CHAT = ASK["openai"][0]
BEGUN = STREAM_HEAD + chunked(event(delta("one")), last=False)


def _goodbye(sock):
    sock.settimeout(0)
    try:
        sock.unwrap()
    except (ssl.SSLWantReadError, ssl.SSLEOFError):
        pass  # the other side's goodbye is not waited for


def _bare(sock, how):
    with socket.socket(fileno=os.dup(sock.fileno())) as bare:
        bare.shutdown(how)


ENDS = {
    "goodbye and FIN": lambda sock: sock.close(),
    "goodbye alone": _goodbye,
    "FIN alone": lambda sock: _bare(sock, socket.SHUT_WR),
    "reset": reset,
}


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return certificate(tmp_path_factory.mktemp("pair"))


@pytest.fixture(scope="module")
def shared(tmp_path_factory, pair):
    config = {"client_write_timeout_secs": 1}
    with GatewayUnderTest(tmp_path_factory.mktemp("tls"), config, certificate=pair) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    yield shared.fresh()
    assert "Traceback" not in shared.supervisor.log()


def ask(gateway, dialect="openai", stream=True):
    path, body = ASK[dialect]
    sock = gateway.connect()
    sock.sendall(post(path, json.dumps({**body, "stream": stream}).encode()))
    return sock


@pytest.mark.parametrize("dialect", ASK)
@pytest.mark.parametrize("stream", [False, True])
def test_every_dialect_is_served(gateway, dialect, stream):
    answer = gateway.ask(dialect, stream=stream)
    assert answer.status == 200 and b"Hello" in answer.body and b"world" in answer.body
    assert len(gateway.child.received) == 1


@pytest.mark.parametrize("dialect", ASK)
def test_a_token_is_passed_on_at_once(gateway, dialect):
    seen = threading.Event()

    def play(talk):
        talk.send(BEGUN)
        assert seen.wait(5)
        talk.send(chunked(event(delta(" two", finish="stop")), b"data: [DONE]\n\n"))
    gateway.child.play = play
    with ask(gateway, dialect) as sock:
        read_until(sock, b"one")
        seen.set()
        read_until(sock, b"two")


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("begun", [b"", BEGUN], ids=["prompt", "stream"])
def test_the_child_is_left_with_the_client(gateway, begun, end):
    asked, closed_at = threading.Event(), []

    def play(talk):
        talk.send(begun)
        asked.set()
        assert talk.client_closes(5)
        closed_at.append(time.monotonic())
    gateway.child.play = play
    sock = ask(gateway)
    assert asked.wait(5)
    if begun:
        read_until(sock, b"one")
    left_at = time.monotonic()
    ENDS[end](sock)
    eventually(lambda: closed_at, 5)
    assert closed_at[0] - left_at < AT_ONCE
    sock.close()


def test_a_client_that_does_not_read_is_given_up(gateway):
    sent = []

    def play(talk):
        talk.send(STREAM_HEAD)
        piece = chunked(event(delta("x" * 60_000)), last=False)
        try:
            while True:
                talk.send(piece)
                sent.append(len(piece))
        except OSError:
            sent.append(-1)
    gateway.child.play = play
    with ask(gateway):
        eventually(lambda: sent and sent[-1] == -1, 10, "back-pressure, then the end of the child's connection")
    assert sum(sent) < 32 << 20


def test_a_large_body_and_a_large_answer_pass_whole(gateway):
    large = b"y" * 20_000_000
    gateway.child.play = lambda talk: talk.send(json_answer(large))
    body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "x" * 8_000_000}]}).encode()
    answer = gateway.request("POST", CHAT, body)
    assert gateway.child.received[-1].body == body and answer.body == large


def test_a_stream_that_breaks_ends_with_an_error_event(gateway):
    def play(talk):
        talk.send(BEGUN)
        talk.close()
    gateway.child.play = play
    answer = gateway.ask("openai", stream=True)
    assert b"in the middle of its answer" in answer.body.strip().split(b"\n\n")[-1]


def test_one_connection_serves_pipelined_requests_of_all_kinds(gateway):
    gateway.child.play = lambda talk: talk.send(json_answer(b'{"n":%d}' % len(gateway.child.received)))
    body = json.dumps(ASK["openai"][1]).encode()
    chunky = b"POST %b HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n" % (
        CHAT.encode(), len(body), body)
    got = gateway.raw(post(CHAT, body) + chunky + post(CHAT, body, "Connection: close"))
    assert [got.count(b'{"n":%d}' % number) for number in (1, 2, 3)] == [1, 1, 1]


def test_an_end_that_is_ours_is_said(gateway):
    """Or a client of HTTP/1.0 could not tell a whole answer from one that was cut on its way."""
    with gateway.connect() as sock:
        sock.suppress_ragged_eofs = False
        sock.sendall(b"GET /api/version HTTP/1.0\r\n\r\n")
        assert read_all(sock).endswith(b"}")


def test_a_refused_head_is_told(gateway):
    assert b"head-refused" in gateway.raw(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n")


def test_plain_http_is_told_to_come_with_https(gateway):
    with gateway.connect_bare() as sock:
        sock.sendall(b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = read_all(sock)
    assert answer.startswith(b"HTTP/1.1 400 ") and b"https://" in answer


@pytest.mark.parametrize("rubbish", [b"\x16\x03\x01\x00\x05hello", b"\0" * 100, b"\x16\x03\x01\x40\x00" + b"\x01" * 90])
def test_what_is_no_handshake_ends_alone(gateway, rubbish):
    with gateway.connect_bare() as sock:
        sock.sendall(rubbish)
        sock.shutdown(socket.SHUT_WR)
        read_all(sock)
    assert gateway.request("GET", "/api/version").status == 200


def test_an_idle_connection_is_closed_when_the_worker_stops_and_a_stream_ends(tmp_path, pair):
    with GatewayUnderTest(tmp_path, certificate=pair) as gateway:
        on = threading.Event()

        def play(talk):
            talk.send(BEGUN)
            assert on.wait(5)
            talk.send(chunked(event(delta(" two", finish="stop")), b"data: [DONE]\n\n"))
        gateway.child.play = play
        with gateway.connect() as idle, ask(gateway) as sock:
            idle.sendall(b"GET /api/version HTTP/1.1\r\nHost: localhost\r\n\r\n")
            read_until(idle, b"}")
            read_until(sock, b"one")
            gateway.supervisor.process.terminate()
            assert read_all(idle) == b""
            on.set()
            assert read_all(sock).endswith(b"0\r\n\r\n")
        assert gateway.supervisor.process.wait(5) == 0


# -- the daemon ------------------------------------------------------------------------------------------


def test_serve_listens_with_tls_and_a_verb_asks_it(tmp_path, pair):
    with Daemon(tmp_path, tuple(LAUNCHER), tls_cert=str(pair.cert), tls_key=str(pair.key)) as daemon:
        daemon.start()
        assert daemon.url.startswith("https://127.0.0.1:")
        connection = http.client.HTTPSConnection("localhost", daemon.port,
                                                 context=ssl.create_default_context(cafile=pair.cert))
        connection.request("GET", "/api/version")
        assert connection.getresponse().status == 200
        connection.close()

        def verb(**env):
            return subprocess.run([sys.executable, "-m", "blazar.cli.main", "--data-dir", str(daemon.paths.data_dir),
                                   "ps"], env={**os.environ, "PYTHONPATH": str(ROOT), **env}, capture_output=True,
                                  text=True)
        assert verb(SSL_CERT_FILE=str(pair.cert)).returncode == 0
        refused = verb()
        assert refused.returncode == 4 and "SSL_CERT_FILE" in refused.stderr, refused
        secret = pair.key.read_text().splitlines()[1]
        for file in daemon.paths.data_dir.rglob("*"):
            assert not file.is_file() or secret.encode() not in file.read_bytes()


def test_serve_does_not_start_with_another_certificates_key(tmp_path, pair):
    other = certificate(tmp_path, "other")
    with Daemon(tmp_path, tls_cert=str(pair.cert), tls_key=str(other.key)) as daemon:
        _, told = daemon.launch().communicate(timeout=20)
        assert daemon.process.returncode == 2 and "it is not the key of tls_cert" in told and "Traceback" not in told
