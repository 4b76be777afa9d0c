"""One client's large body, or its many requests, must not keep the gateway from the others."""

import json
import socket
import threading
import time

import pytest

from tests.support.gateway_under_test import ASK, GatewayUnderTest, is_error_of, post, read_all, read_until

MIB = 1 << 20
PING = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
LIMIT = 0.5
"""Seconds that a ping may take on a busy machine; without the pauses it takes a second and more."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("fair")) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    return shared.fresh()


def worst_ping(gateway, ended):
    """The longest answer time of another client, until `ended` is set; and how many it asked."""
    worst, count = 0.0, 0
    with gateway.connect() as sock:
        while not ended.is_set() or not count:
            began = time.monotonic()
            sock.sendall(PING)
            read_until(sock, b'"}')
            worst = max(worst, time.monotonic() - began)
            count += 1
            ended.wait(0.005)
    return worst, count


def test_a_client_that_pipelines_does_not_keep_others_waiting(gateway):
    """It has its next request there whenever one is answered, so nothing of its own makes it wait."""
    ended = threading.Event()
    with gateway.connect() as sock:
        def drain():
            seen = b""
            while b"Connection: close" not in seen:
                seen = seen[-20:] + sock.recv(1 << 20)
            ended.set()
        threading.Thread(target=drain, daemon=True).start()
        sender = threading.Thread(target=sock.sendall, daemon=True, args=(
            PING * 5000 + PING.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"),))
        sender.start()
        worst, count = worst_ping(gateway, ended)
        sender.join()
    assert count >= 5 and worst < LIMIT


@pytest.mark.parametrize("dialect", list(ASK))
def test_a_large_body_does_not_keep_others_waiting(gateway, dialect):
    path, question = ASK[dialect]
    body = json.dumps({**question, "x": {"user_id": "A" * (25 * MIB)}}).encode()
    ended, got = threading.Event(), []

    def ask():
        with gateway.connect() as sock:
            sock.settimeout(60)
            sock.sendall(post(path, body, "Connection: close"))
            got.append(read_all(sock))
        ended.set()

    threading.Thread(target=ask, daemon=True).start()
    worst, _ = worst_ping(gateway, ended)
    assert got[0].startswith(b"HTTP/1.1 200 ") and worst < LIMIT
    if dialect == "openai":
        assert gateway.child.received[-1].body == body


@pytest.mark.parametrize("dialect", ["ollama", "anthropic"])
def test_a_large_body_of_millions_of_values_is_refused(gateway, dialect):
    path, question = ASK[dialect]
    body = json.dumps({**question, "x": []}).encode().replace(b"[]}", b"[" + b"[]," * (2 * MIB) + b"0]}")
    answer = gateway.request("POST", path, body)
    assert answer.status == 400 and "more than 1000000 values" in is_error_of(dialect, answer)


@pytest.mark.parametrize(("broken", "why"), [(b'"x":[1,}', "instead of"), (b'"x":NaN', "instead of a value"),
                                             (b'"x":"', "too early"), (b'"model":5', "must be the name of a model")])
def test_a_large_body_is_checked_like_any_other(gateway, broken, why):
    body = b'{"model":"solo","y":"' + b"A" * MIB + b'",' + broken + b"}"
    answer = gateway.request("POST", "/v1/chat/completions", body)
    assert answer.status == 400 and why in is_error_of("openai", answer) and not gateway.child.received


def test_the_body_limit_holds_for_large_bodies(gateway):
    with socket.create_connection(("127.0.0.1", gateway.supervisor.port), timeout=10) as sock:
        sock.sendall(b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (64 * MIB + 1))
        assert read_until(sock, b"\r\n").startswith(b"HTTP/1.1 413 ")
