"""Routes, methods, bodies and heads as clients of all kinds send them (FC-13, FC-24, and parts of FC-23)."""

import json
import time

import pytest

from tests.support.gateway_under_test import ASK, MODEL, GatewayUnderTest, is_error_of, post, read_until

DIALECTS = list(ASK)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("http"), {"max_body_mb": 1}) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    return shared.fresh()


# -- FC-13 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/", "/api/version", "/api/tags", "/api/ps", "/v1/models", "/healthz",
                                  f"/v1/models/{MODEL}", "/v1/models/SOLO"])
def test_head_is_get_without_its_body(gateway, path):
    get, head = (gateway.request(method, path, headers={"X-Request-Id": "same"}) for method in ("GET", "HEAD"))
    assert get.status == head.status == 200 and head.body == b"" and get.body
    assert head.headers == get.headers
    assert get.headers["content-type"] == ("text/plain; charset=utf-8" if path == "/" else "application/json")


def test_version_looks_like_one(gateway):
    version = gateway.request("GET", "/api/version").json()
    assert set(version) == {"version"} and len(version["version"].split(".")) == 3


@pytest.mark.parametrize(("method", "path", "allow", "dialect"), [
    ("DELETE", "/v1/models", "GET, HEAD, OPTIONS", "openai"), ("GET", "/api/chat", "OPTIONS, POST", "ollama"),
    ("HEAD", "/api/chat", "OPTIONS, POST", None), ("POST", "/api/delete", "DELETE, OPTIONS", "ollama"),
    ("PUT", "/v1/messages", "OPTIONS, POST", "anthropic"), ("POST", "/", "GET, HEAD, OPTIONS", "openai")])
def test_wrong_method(gateway, method, path, allow, dialect):
    answer = gateway.request(method, path)
    assert answer.status == 405 and answer.headers["allow"] == allow
    if dialect is None:
        assert answer.body == b""
    else:
        assert method in is_error_of(dialect, answer)


@pytest.mark.parametrize(("path", "dialect"), [("/nope", "openai"), ("/v1/nope", "openai"), ("/api/nope", "ollama"),
                                               ("/v1/messages/nope", "anthropic"), ("/v1/models/nope", "openai"),
                                               ("/%C3%A9%00%0d%0a", "openai")])
def test_unknown_path(gateway, path, dialect):
    answer = gateway.request("GET", path)
    assert answer.status == 404 and is_error_of(dialect, answer)


@pytest.mark.parametrize("path", ["/api/chat", "/api/generate"])
@pytest.mark.parametrize(("stream", "kind"), [({}, "application/x-ndjson"), ({"stream": True}, "application/x-ndjson"),
                                              ({"stream": False}, "application/json")])
def test_content_types_of_ollama(gateway, path, stream, kind):
    answer = gateway.request("POST", path, {"model": MODEL, "prompt": "x", "messages": [
        {"role": "user", "content": "x"}], **stream})
    assert answer.status == 200 and answer.headers["content-type"] == kind
    refused = gateway.request("POST", path, {"model": "nope", "prompt": "x", "messages": [
        {"role": "user", "content": "x"}], **stream})
    assert refused.status == 404 and "nope" in is_error_of("ollama", refused)


# -- FC-24 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON", None,
                                  "application/x-www-form-urlencoded", "text/plain"])
def test_the_content_type_does_not_matter(gateway, dialect, kind):
    assert gateway.ask(dialect, {} if kind is None else {"Content-Type": kind}, stream=False).status == 200


GOOD = {dialect: json.dumps(body).encode() for dialect, (_, body) in ASK.items()}
BAD = {
    "empty": lambda good: b"", "list": lambda good: b"[]", "text": lambda good: b'"x"', "null": lambda good: b"null",
    "cut": lambda good: b"{", "utf-16": lambda good: good.decode().encode("utf-16"),
    "not utf-8": lambda good: good.replace(b"hi", b"\xff"),
    "nan": lambda good: good.replace(b"{", b'{"temperature":NaN,', 1),
    "deep": lambda good: b"[" * 100_000,
    "deep inside": lambda good: good.replace(b"{", b'{"x":' + b"[" * 10_000 + b"]" * 10_000 + b",", 1),
    "digits": lambda good: good.replace(b"{", b'{"max_tokens":' + b"9" * 5000 + b",", 1),
    "no model": lambda good: good.replace(b'"model"', b'"mode"'),
    "model is a number": lambda good: good.replace(b'"solo:q4_0"', b"5"),
    "hostile name": lambda good: good.replace(b"solo:q4_0", b"../../etc/passwd"),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", BAD)
def test_bad_bodies_are_refused_quickly_in_the_dialects_shape(gateway, dialect, kind):
    began = time.monotonic()
    answer = gateway.request("POST", ASK[dialect][0], BAD[kind](GOOD[dialect]))
    assert answer.status == 400, answer
    assert "Traceback" not in is_error_of(dialect, answer)
    assert time.monotonic() - began < 2
    assert gateway.child.received == []
    assert "Traceback" not in gateway.supervisor.log()


@pytest.mark.parametrize("dialect", ["ollama", "anthropic"])
def test_messages_that_are_no_list(gateway, dialect):
    """What OpenAI's lane relays is the engine's to judge; tests/probe/test_embedded_engine.py asks it."""
    answer = gateway.ask(dialect, messages={})
    assert answer.status == 400 and "`messages` must be a list" in is_error_of(dialect, answer)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("change", [lambda good: b"\xef\xbb\xbf" + good,
                                    lambda good: good.replace(b"{", b'{"model":"other",', 1)])
def test_harmless_oddities_are_accepted_or_refused_cleanly(gateway, dialect, change):
    answer = gateway.request("POST", ASK[dialect][0], change(GOOD[dialect]))
    assert answer.status in (200, 400)


# -- bodies ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_body_over_the_limit_is_a_413_even_while_it_is_being_sent(gateway, dialect):
    answer = gateway.request("POST", ASK[dialect][0], b" " * (2 << 20))
    assert answer.status == 413 and "max_body_mb" in is_error_of(dialect, answer)
    assert answer.headers["connection"] == "close"


def test_a_chunked_body_over_the_limit_is_a_413(gateway):
    with gateway.connect() as sock:
        sock.sendall(b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        sock.sendall(b"120000\r\n" + b" " * 0x120000 + b"\r\n")
        assert b" 413 " in read_until(sock, b"\r\n")


def chunks(body: bytes, size: int) -> bytes:
    return b"".join(b"%x%b\r\n%b\r\n" % (len(part), b";ext=1" if not start else b"", part)
                    for start, part in ((start, body[start:start + size]) for start in range(0, len(body), size)))


@pytest.mark.parametrize("size", [1, 7, 300])
def test_continue_is_said_when_the_body_is_wanted(gateway, size):
    path, _ = ASK["openai"]
    with gateway.connect() as sock:
        sock.sendall(f"POST {path} HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
                     "Expect: 100-continue\r\n\r\n".encode())
        assert read_until(sock, b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        sock.sendall(chunks(GOOD["openai"], size) + b"0\r\nX-Trailer: a\r\n\r\n")
        assert read_until(sock, b"]}").startswith(b"HTTP/1.1 200 OK\r\n")
    assert gateway.child.received[0].body == GOOD["openai"]


def test_a_client_that_does_not_wait_for_continue_is_served(gateway):
    with gateway.connect() as sock:
        sock.sendall(post(ASK["openai"][0], GOOD["openai"], "Expect: 100-continue"))
        assert b"HTTP/1.1 200 OK" in read_until(sock, b"]}")


def test_no_continue_for_a_body_that_is_too_large_anyway(gateway):
    with gateway.connect() as sock:
        sock.sendall(b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999\r\n"
                     b"Expect: 100-continue\r\n\r\n")
        assert read_until(sock, b"\r\n").startswith(b"HTTP/1.1 413 ")


def test_bad_chunks_are_a_400_without_a_traceback(gateway):
    with gateway.connect() as sock:
        sock.sendall(b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nhello\r\n")
        assert b"HTTP/1.1 400 " in read_until(sock, b"\r\n")
    assert "Traceback" not in gateway.supervisor.log()


def test_a_client_that_leaves_within_its_body_reaches_no_child(gateway):
    with gateway.connect() as sock:
        sock.sendall(post(ASK["openai"][0], GOOD["openai"])[:-5])
    assert gateway.ask("openai").status == 200
    assert len(gateway.child.received) == 1
    assert "Traceback" not in gateway.supervisor.log()


def test_errors_leave_the_connection_usable_once_the_body_was_read(gateway):
    with gateway.connect() as sock:
        for _ in range(2):
            sock.sendall(post("/api/chat", b'{"model":"nope","messages":[{"role":"user","content":"x"}]}'))
            assert read_until(sock, b'what is installed"}').startswith(b"HTTP/1.1 404 ")


# -- knobs -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_knobs_that_are_not_active_are_refused(gateway, dialect):
    answer = gateway.ask(dialect, {"X-Blazar-Best-Of": "3"})
    assert answer.status == 400 and "x-blazar-best-of" in is_error_of(dialect, answer)
    assert gateway.child.received == []


def test_the_home_folder_stays_empty(gateway):
    assert list((gateway.supervisor.folder / "home").iterdir()) == []
