"""The OpenAI lane: the caller's bytes reach the child, and the child's bytes reach the caller, unchanged."""

import hashlib
import json
import threading
import time

import pytest

from tests.support.gateway_under_test import MODEL, GatewayUnderTest, is_error_of, post, read_all, read_until
from tests.support.scripted_child import STREAM_HEAD, chunked, delta, event, json_answer
from tests.support.transports import BOTH

ODD_BODY = (b'{  "stream" :false,\n\t"z":1.0e0,"model":"SOLO", "messages":[{"role":"user","content":'
            b'"\\u00e9\\/\\ud83d\\ude00 \xc3\xa9"}],"a":[1 ,2] , "temperature":0.70000000000000000001}\r\n')
CHAT = "/v1/chat/completions"


@pytest.fixture(scope="module", params=BOTH)
def shared(request, tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("relay"), transport=request.param) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    return shared.fresh()


def stream_body() -> bytes:
    return json.dumps({"model": MODEL, "stream": True, "messages": []}).encode()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize("path", [CHAT, "/v1/completions"])
def test_request_and_answer_bytes_are_unchanged(gateway, path):
    answer_bytes = b'{ "choices" : [ ],"x":"\\u0041\\/", "n":1.50 }\n'
    gateway.child.play = lambda talk: talk.send(json_answer(answer_bytes))
    answer = gateway.request("POST", path, ODD_BODY)
    received, = gateway.child.received
    assert received.head.split(b"\r\n")[0] == f"POST {path} HTTP/1.1".encode()
    assert digest(received.body) == digest(ODD_BODY)
    assert answer.status == 200 and digest(answer.body) == digest(answer_bytes)


def test_chunk_framing_of_the_child_goes_through(gateway):
    wire = b"00A;x=y\r\ndata: {}\n\n\r\n" + chunked(event(delta("a")), b"data: [DONE]\n\n")
    gateway.child.play = lambda talk: talk.send(STREAM_HEAD + wire)
    with gateway.connect() as sock:
        sock.sendall(post(CHAT, stream_body()))
        got = read_until(sock, b"0\r\n\r\n")
    head, _, body = got.partition(b"\r\n\r\n")
    assert body == wire
    assert b"Transfer-Encoding: chunked" in head and b"Connection: keep-alive" in head


def test_large_body_arrives_whole(gateway):
    body = json.dumps({"model": MODEL, "messages": [{"role": "user", "content": "x" * 3_000_000}]}).encode()
    assert gateway.request("POST", CHAT, body).status == 200
    assert digest(gateway.child.received[-1].body) == digest(body)


def test_the_child_hears_nothing_of_the_callers_head(gateway):
    gateway.request("POST", CHAT, ODD_BODY, {
        "Authorization": "Bearer callers", "X-Api-Key": "callers", "Cookie": "a=b", "User-Agent": "curl",
        "X-Forwarded-For": "1.2.3.4", "Accept-Encoding": "gzip", "Content-Type": "text/plain; charset=utf-8"})
    received, = gateway.child.received
    address = gateway.child.address
    host = "localhost" if isinstance(address, str) else f"{address[0]}:{address[1]}"
    assert received.fields == {
        "host": host, "content-type": "application/json", "content-length": str(len(ODD_BODY)),
        "accept": "application/json", "authorization": "Bearer s3cret"}


def test_the_caller_hears_nothing_of_the_childs_head_but_the_type(gateway):
    answer = gateway.request("POST", CHAT, ODD_BODY, {"X-Request-Id": "mine-1"})
    assert float(answer.headers.pop("x-blazar-overhead-ms")) < 1000
    assert answer.headers == {"x-request-id": "mine-1", "content-type": "application/json; charset=utf-8",
                              "content-length": str(len(answer.body)), "connection": "keep-alive"}


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "caf\xe9"])
def test_an_odd_request_id_is_replaced(gateway, given):
    answer = gateway.request("GET", "/api/version", headers={"X-Request-Id": given})
    assert answer.headers["x-request-id"].startswith("req_")


@pytest.mark.parametrize("status", ["400 Bad Request", "404 Not Found", "500 Internal Server Error", "503 Busy"])
def test_error_answers_of_the_child_are_relayed(gateway, status):
    body = b'{"error":{"code":1,"message":"as the child says","type":"x"}}'
    gateway.child.play = lambda talk: talk.send(json_answer(body, status))
    answer = gateway.request("POST", CHAT, ODD_BODY)
    assert (answer.status, answer.body) == (int(status[:3]), body)


def test_a_child_that_refuses_our_secret_is_no_fault_of_the_caller(gateway):
    gateway.child.play = lambda talk: talk.send(json_answer(b"{}", "401 Unauthorized"))
    answer = gateway.request("POST", CHAT, ODD_BODY)
    assert answer.status == 502 and "secret" in is_error_of("openai", answer)


@pytest.mark.parametrize("end", [event(delta(finish="stop")), b"data: 1\n\ndata: [DONE]\n\n"])
def test_body_until_close(gateway, end):
    def play(talk):
        talk.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n" + end)
        talk.close()
    gateway.child.play = play
    answer = gateway.request("POST", CHAT, stream_body())
    assert answer.body == end and answer.headers["transfer-encoding"] == "chunked"
    assert gateway.raw(post(CHAT, stream_body(), version="1.0")).endswith(b"\r\n\r\n" + end)


def test_a_whole_json_body_until_close(gateway):
    def play(talk):
        talk.send(b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\n\r\n" + b'{"choices": [ ]}')
        talk.close()
    gateway.child.play = play
    answer = gateway.request("POST", CHAT, ODD_BODY)
    assert (answer.body, answer.headers["content-length"]) == (b'{"choices": [ ]}', "16")


def test_an_http_1_0_client_gets_no_chunks_and_a_close(gateway):
    gateway.child.play = lambda talk: talk.send(STREAM_HEAD + chunked(event(delta("a")), b"data: [DONE]\n\n"))
    got = gateway.raw(post(CHAT, stream_body(), version="1.0"))
    head, _, body = got.partition(b"\r\n\r\n")
    assert b"Transfer-Encoding" not in head and b"Connection: close" in head
    assert body == event(delta("a")) + b"data: [DONE]\n\n"


def test_one_connection_serves_many_requests_on_both_sides(gateway):
    before = gateway.child.connections
    with gateway.connect() as sock:
        for number in range(5):
            sock.sendall(post(CHAT, stream_body()) if number % 2 else post(CHAT, ODD_BODY))
            read_until(sock, b"0\r\n\r\n" if number % 2 else b"]}")
    assert len(gateway.child.received) == 5
    assert gateway.child.connections - before == 1


def test_pipelined_requests_are_answered_in_order(gateway):
    body = json.dumps({"model": MODEL}).encode()
    gateway.child.play = lambda talk: talk.send(json_answer(b'{"n":%d}' % len(gateway.child.received)))
    got = gateway.raw(post(CHAT, body) + post(CHAT, body) + post(CHAT, body, "Connection: close"))
    assert [got.count(b'{"n":%d}' % number) for number in (1, 2, 3)] == [1, 1, 1]
    assert got.index(b'{"n":1}') < got.index(b'{"n":2}') < got.index(b'{"n":3}')


# -- the child fails -------------------------------------------------------------------------------------


def test_child_that_closes_without_a_byte_is_a_502_and_was_asked_once(gateway):
    gateway.child.play = lambda talk: talk.close()
    answer = gateway.request("POST", CHAT, ODD_BODY)
    assert answer.status == 502 and "closed the connection before" in is_error_of("openai", answer)
    assert len(gateway.child.received) == 1


def test_child_that_closes_within_its_head_is_a_502_without_repeat(gateway):
    def play(talk):
        talk.send(b"HTTP/1.1 200 OK\r\nContent-")
        talk.close()
    assert gateway.request("POST", CHAT, ODD_BODY).status == 200  # leaves a connection to re-use
    gateway.child.play = play
    answer = gateway.request("POST", CHAT, ODD_BODY)
    assert answer.status == 502 and len(gateway.child.received) == 2


@pytest.mark.parametrize("rubbish", [b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
                                     b"HTTP/1.1 200 OK\r\nX: " + b"y" * 70_000])
def test_child_that_speaks_no_http_is_a_502(gateway, rubbish):
    def play(talk):
        talk.send(rubbish)
        talk.client_closes()
        talk.close()
    gateway.child.play = play
    answer = gateway.request("POST", CHAT, ODD_BODY)
    assert answer.status == 502 and "not HTTP" in is_error_of("openai", answer)


def test_stale_connection_is_replaced_and_the_prompt_runs_once(gateway):
    def one_answer_per_connection(talk):
        talk.send(json_answer(b'{"ok":1}'))
        time.sleep(0.02)
        talk.close()
    gateway.child.play = one_answer_per_connection
    for number in range(1, 21):
        answer = gateway.request("POST", CHAT, ODD_BODY)
        assert (answer.status, answer.body) == (200, b'{"ok":1}')
        assert len(gateway.child.received) == number, "each prompt runs at most once"
        if number % 2:
            time.sleep(0.02)  # the child's close races with the next request


def test_a_restarted_child_behind_eight_idle_connections(gateway):
    def all_at_once(count):
        socks = [gateway.connect() for _ in range(count)]
        for sock in socks:
            sock.sendall(post(CHAT, ODD_BODY, "Connection: close"))
        for sock in socks:
            assert b"200 OK" in read_all(sock)
            sock.close()
    all_at_once(8)
    gateway.child.drop()
    all_at_once(8)


def test_stream_that_breaks_between_events_ends_with_an_error_event(gateway):
    def play(talk):
        talk.send(STREAM_HEAD + chunked(event(delta("a")), last=False))
        talk.close()
    gateway.child.play = play
    answer = gateway.request("POST", CHAT, stream_body())
    first, last = answer.body.strip().split(b"\n\n")
    assert first == event(delta("a")).strip()
    error = json.loads(last.removeprefix(b"data: "))["error"]
    assert "in the middle of its answer" in error["message"] and error["type"] == "server_error"


@pytest.mark.parametrize("rest", [chunked(b'data: {"half":', last=False), b"50\r\ndata: {", b"5"])
def test_stream_that_breaks_elsewhere_is_visibly_unfinished(gateway, rest):
    def play(talk):
        talk.send(STREAM_HEAD + chunked(event(delta("a")), last=False) + rest)
        talk.close()
    gateway.child.play = play
    got = gateway.raw(post(CHAT, stream_body()))
    assert got.endswith(rest) and b"error" not in got


def test_buffered_answer_that_breaks_off_is_visibly_unfinished(gateway):
    def play(talk):
        talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{")
        talk.close()
    gateway.child.play = play
    got = gateway.raw(post(CHAT, ODD_BODY))
    assert b"Content-Length: 100" in got and got.endswith(b"\r\n\r\n{")


def test_silent_child_is_a_504(tmp_path):
    with GatewayUnderTest(tmp_path, {"child_header_timeout_secs": 1}) as gateway:
        gateway.child.play = lambda talk: talk.client_closes()
        answer = gateway.request("POST", CHAT, ODD_BODY)
        assert answer.status == 504 and "child_header_timeout_secs" in is_error_of("openai", answer)


def test_nothing_is_said_inside_a_chunk_that_the_client_has_not_whole(gateway):
    """The end of an event, as it looks, is in the middle of a chunk; then comes what is no chunk."""
    part = b"data: {}\n\n\r\n"

    def play(talk):
        talk.send(STREAM_HEAD + b"%x\r\n" % (len(part) + 4) + part)
        gateway.reached.wait(5)
        talk.send(b"more\r\nzz\r\n")
    gateway.reached = threading.Event()
    gateway.child.play = play
    with gateway.connect() as sock:
        sock.sendall(post(CHAT, stream_body()))
        got = read_until(sock, part)
        gateway.reached.set()
        assert read_all(sock) == b"" and got.endswith(part)
