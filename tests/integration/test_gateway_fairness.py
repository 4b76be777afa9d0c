"""One client's large body, or its many requests, must not keep the gateway from the others, nor take its memory."""

import base64
import json
import os
import socket
import threading
import time

import pytest

from tests.support.gateway_under_test import ASK, MODEL, GatewayUnderTest, is_error_of, post, read_all, read_until
from tests.support.soak.watch import peak
from tests.support.tiny_mmproj import png_of

MIB = 1 << 20
PING = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
LIMIT = 0.5
"""Seconds that a ping may take on a busy machine; without the pauses it takes a second and more."""
SIDE = 2520
"""Pixels of a square picture whose file is nearly as large as one may be."""


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("fair"), sees=True) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def at_rest(shared):
    """Bytes that the worker had at most before anybody sent anything large."""
    assert all(shared.ask(dialect).status == 200 for dialect in ASK)
    return peak(shared.supervisor.worker_pid())


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


def sent_beside_pings(gateway, path, body):
    """The answer to a request, and the longest that another client waited meanwhile."""
    ended, got = threading.Event(), []

    def ask():
        with gateway.connect() as sock:
            sock.settimeout(60)
            sock.sendall(post(path, body, "Connection: close"))
            got.append(read_all(sock))
        ended.set()

    threading.Thread(target=ask, daemon=True).start()
    worst, _ = worst_ping(gateway, ended)
    return got[0], worst


@pytest.mark.parametrize("dialect", list(ASK))
def test_a_large_body_does_not_keep_others_waiting(at_rest, gateway, dialect):
    path, question = ASK[dialect]
    body = json.dumps({**question, "x": {"user_id": "A" * (25 * MIB)}}).encode()
    answer, worst = sent_beside_pings(gateway, path, body)
    assert answer.startswith(b"HTTP/1.1 200 ") and worst < LIMIT
    if dialect == "openai":
        assert gateway.child.received[-1].body == body


@pytest.fixture(scope="module")
def picture():
    """In base64; of noise, as no file of a camera's is smaller."""
    rows = b"".join(b"\0" + os.urandom(3 * SIDE) for _ in range(SIDE))
    return base64.b64encode(png_of(rows, SIDE, level=0)).decode()


def showing(form, picture):
    """Path and body of a request that shows it."""
    url, turn = f"data:image/png;base64,{picture}", {"role": "user", "content": "a"}
    source = {"type": "base64", "media_type": "image/png", "data": picture}
    path, more = {
        "openai": ("/v1/chat/completions", {"messages": [
            {**turn, "content": [{"type": "image_url", "image_url": {"url": url}}]}]}),
        "ollama": ("/api/chat", {"messages": [{**turn, "images": [picture]}]}),
        "anthropic": ("/v1/messages", {"max_tokens": 9, "messages": [
            {**turn, "content": [{"type": "image", "source": source}]}]}),
        "responses": ("/v1/responses", {"input": [{**turn, "content": [{"type": "input_image", "image_url": url}]}]}),
    }[form]
    return path, json.dumps({"model": MODEL, **more}).encode()


MOST_BODIES = {"openai": 5, "ollama": 7, "anthropic": 7, "responses": 7}
"""How much memory a request may take, in bodies: as it came, parsed, as its child gets it, and what the allocator keeps
of pieces that are free again."""


@pytest.mark.parametrize("form", MOST_BODIES)
def test_a_large_picture_neither_keeps_others_waiting_nor_takes_much_memory(at_rest, gateway, picture, form):
    path, body = showing(form, picture)
    assert len(body) > 25_000_000
    worker = gateway.supervisor.worker_pid()
    peak(worker)
    answer, worst = sent_beside_pings(gateway, path, body)
    assert peak(worker) - at_rest < MOST_BODIES[form] * len(body)
    assert answer.startswith(b"HTTP/1.1 200 ") and worst < LIMIT
    if form == "openai":
        assert gateway.child.received[-1].body == body
    assert f"data:image/png;base64,{picture}".encode() in gateway.child.received[-1].body


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
