"""A child that dies, or answers what is no answer: what clients of each dialect see. Never a hang, never an answer that
looks whole, always an audit line and a free slot."""

import json
import time

import pytest

from blazar.proxy.wire.framing import LAST_CHUNK
from tests.support import exposition
from tests.support.fake_supervisor import eventually
from tests.support.gateway_under_test import ASK, MODEL, Answer, GatewayUnderTest, is_error_of, post, read_all
from tests.support.scripted_child import STREAM_HEAD, chunked, delta, event, hello_world, json_answer
from tests.support.transports import TRANSPORTS

KEYS = [{"name": "ann", "key": "sk-ann", "max_concurrent": 1, "daily_tokens": 1000000}]
ANN = {"Authorization": "Bearer sk-ann"}
CASES = [(dialect, stream) for dialect in ASK for stream in (False, True)]
EVENT = event(delta("Half"))
TOLD = {"openai": b'data: {"error":{"message":', "ollama": b'{"error":"', "anthropic": b"event: error\n",
        "responses": b"event: response.failed\n"}
WHOLE = {"openai": b"[DONE]", "ollama": b'"done":true', "anthropic": b"message_stop",
         "responses": b"response.completed"}


def head(kind, *lines):
    return "\r\n".join(["HTTP/1.1 200 OK", f"Content-Type: {kind}", *lines, "", ""]).encode()


def refusal(status, *lines):
    return "\r\n".join([f"HTTP/1.1 {status}", "Content-Type: application/json", *lines, "", ""]).encode()


def says(streamed, whole=None):
    """A child that sends this, by what it is asked for, and closes."""
    def play(talk):
        talk.send(streamed if whole is None or json.loads(talk.request.body).get("stream") else whole)
        talk.close()
    return play


def never_ends(first, piece):
    def play(talk):
        talk.send(first)
        while True:  # until the gateway closes
            talk.send(piece)
    return play


BEFORE = {
    # before the head of an answer, or as one: how the child behaves, and a part of what is told to whoever asked
    "dies": (says(b""), "closed the connection before it answered"),
    "dies in its head": (says(b"HTTP/1.1 200 OK\r\nContent-"), "closed the connection before it answered"),
    "speaks no HTTP": (says(b"SSH-2.0-OpenSSH_9.2\r\n\r\n"), "not HTTP"),
    "head without end": (never_ends(b"HTTP/1.1 200 OK\r\n", b"X: " + b"y" * 1000 + b"\r\n"), "head is too long"),
    "line without end": (never_ends(b"HTTP/1.1 200 OK\r\nX: ", b"y" * 1000), "head is too long"),
    "two lengths": (says(head("application/json", "Content-Length: 2", "Content-Length: 3") + b"{}"), "not HTTP"),
    "a web page": (says(head("text/html", "Content-Length: 4") + b"<p>!"), "stream of events"),
    "a failure in HTML": (says(b"HTTP/1.1 500 Oops\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\n<p>!"),
                          "<p>!"),
    "dies in a failure": (says(refusal("500 Oops", "Content-Length: 99") + b'{"error"'), "status 500"),
    "bad chunk in a failure": (says(refusal("500 Oops", "Transfer-Encoding: chunked") + b"2\r\n{}\r\nzz\r\n"),
                               "status 500"),
    "more than a failure": (says(refusal("500 Oops", "Content-Length: 2") + b"{}{}"), "status 500"),
}
DURING = {
    # in the middle: what it sends to who wants a stream, and to others; what is told
    "dies": (STREAM_HEAD + chunked(EVENT, last=False), head("application/json", "Content-Length: 99") + b'{"a":',
             "in the middle of its answer"),
    "too short": (head("text/event-stream", "Content-Length: 9999") + EVENT,
                  head("application/json", "Content-Length: 9999") + b'{"a":', "in the middle of its answer"),
    "until it closes": (head("text/event-stream") + EVENT, head("application/json") + b'{"choices":[{}',
                        "in the middle of its answer"),
    "bad chunk": (STREAM_HEAD + chunked(EVENT, last=False) + b"zz\r\n",
                  head("application/json", "Transfer-Encoding: chunked") + b"2\r\n{}\r\nzz\r\n", "rules of HTTP"),
}
UNREADABLE = {
    # what only a dialect that translates reads; OpenAI's clients get the child's own bytes
    "no JSON": (b"data: {nonsense\n\n", "not JSON"),
    "no object": (b"data: [1,2]\n\ndata: [DONE]\n\n", "not a JSON object"),
    "nothing": (b"", "empty"),
}


@pytest.fixture(scope="module", params=TRANSPORTS)
def shared(request, tmp_path_factory):
    settings = {"child_header_timeout_secs": 1, "singleflight": False, "keys": KEYS}
    with GatewayUnderTest(tmp_path_factory.mktemp("bad"), settings, transport=request.param) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    yield shared.fresh()
    shared.child.play = hello_world
    assert shared.ask("openai", ANN).status == 200, "the API key's only place is free again"
    numbers = exposition.read(shared.request("GET", "/metrics", headers=ANN).body.decode())
    assert exposition.value(numbers, "blazar_requests_in_flight") == 0
    use = shared.supervisor.link().ask("usage", 5)["children"][f"{MODEL}#1"]
    assert use["in_flight"] == 0
    assert "Traceback" not in shared.supervisor.log()


def ask(gateway, dialect, stream):
    """The answer as it came, and its audit line."""
    gateway.child.drop()  # on a connection that was used before it might be tried twice
    path, body = ASK[dialect]
    name, began = f"req-{time.monotonic_ns()}", time.monotonic()
    with gateway.connect() as sock:
        sock.sendall(post(path, json.dumps({**body, "stream": stream}).encode(), "Connection: close",
                          "Authorization: Bearer sk-ann", f"X-Request-Id: {name}"))
        got = read_all(sock)
    assert time.monotonic() - began < 8
    raw, _, rest = got.partition(b"\r\n\r\n")
    lines = raw.decode().split("\r\n")
    fields = dict(line.lower().split(": ", 1) for line in lines[1:])

    def noted():
        log = gateway.supervisor.paths.audit_log
        return [line for line in map(json.loads, log.read_text().splitlines()) if line["id"] == name]
    return Answer(int(lines[0].split()[1]), fields, rest), eventually(noted, what="audit line")[0]


@pytest.mark.parametrize("how", BEFORE)
def test_what_goes_wrong_before_an_answer_is_a_502(gateway, how):
    gateway.child.play, words = BEFORE[how]
    for dialect, stream in CASES:
        answer, line = ask(gateway, dialect, stream)
        assert answer.status == 502 and words in is_error_of(dialect, answer), (dialect, stream, answer)
        assert (line["status"], line["error"], line["completion_tokens"]) == (502, "child-failed", 0)


@pytest.mark.parametrize("how", DURING)
def test_what_goes_wrong_in_the_middle_is_told_there(gateway, how):
    streamed, whole, words = DURING[how]
    gateway.child.play = says(streamed, whole)
    for dialect, stream in CASES:
        answer, line = ask(gateway, dialect, stream)
        case = (dialect, stream, answer)
        assert line["error"] == "child-failed", case
        if stream:
            assert answer.status == line["status"], case
            assert WHOLE[dialect] not in answer.body, case
            told = TOLD[dialect] in answer.body and words.encode() in answer.body
            # Nothing can be told within the length that the child gave; a stream that is cut for it has no last chunk.
            cut = dialect == "openai" and ("content-length" in answer.headers or (
                how == "too short" and not answer.body.endswith(LAST_CHUNK)))
            assert told or cut or (answer.status == 502 and words in is_error_of(dialect, answer)), case
        elif dialect == "openai" and how != "until it closes":
            assert answer.status == 200 and not answer.body.endswith(b"0\r\n\r\n"), case
            assert len(answer.body) < int(answer.headers.get("content-length", 1 << 30)), "visibly unfinished"
        else:
            assert answer.status == 502 and words in is_error_of(dialect, answer), case


@pytest.mark.parametrize("how", UNREADABLE)
def test_events_that_cannot_be_read_are_no_answer(gateway, how):
    data, words = UNREADABLE[how]
    gateway.child.play = says(head("text/event-stream") + data)
    for dialect, stream in CASES:
        if dialect != "openai":
            answer, line = ask(gateway, dialect, stream)
            assert answer.status == 502 and words in is_error_of(dialect, answer), (dialect, stream, answer)
            assert line["error"] == "child-failed"


def test_a_stream_without_its_end_is_no_answer(gateway):
    """HTTP has it whole, but it says neither why it ends nor that it does."""
    gateway.child.play = says(STREAM_HEAD + chunked(EVENT))
    for dialect, stream in CASES:
        if dialect != "openai":
            answer, line = ask(gateway, dialect, stream)
            case = (dialect, stream, answer)
            assert WHOLE[dialect] not in answer.body and b"in the middle of its answer" in answer.body, case
            assert (answer.status, line["error"]) == (200 if stream else 502, "child-failed"), case
            assert not stream or TOLD[dialect] in answer.body, case


def test_a_child_that_only_ever_says_that_it_goes_on(gateway):
    gateway.child.play = never_ends(b"", b"HTTP/1.1 100 Continue\r\n\r\n")
    answer, line = ask(gateway, "ollama", True)
    assert answer.status == 504 and line["error"] == "child-silent"


def test_a_refusal_of_the_child_stays_its_own(gateway):
    gateway.child.play = lambda talk: talk.send(json_answer(b'{"error":{"code":500,"message":"odd"}}', "500 Oops"))
    answer, line = ask(gateway, "openai", False)
    assert (answer.status, answer.json()["error"]["message"], line["status"]) == (500, "odd", 500)


def test_a_refusal_that_breaks_off_is_told_by_its_status(gateway):
    gateway.child.play = says(refusal("400 Bad", "Content-Length: 99") + b'{"error":{"message":"the')
    for dialect, stream in CASES:
        answer, line = ask(gateway, dialect, stream)
        assert answer.status == 400 and "status 400" in is_error_of(dialect, answer), (dialect, stream, answer)
        assert (line["status"], line["error"], line["completion_tokens"]) == (400, "child-refused", 0)
