"""Streams of every dialect, however the child cuts and decorates its events (FC-01, FC-02, FC-16)."""

import json
import re
import threading
import time

import pytest

from tests.support.gateway_under_test import ASK, MODEL, GatewayUnderTest, is_error_of, post, read_all, read_until
from tests.support.scripted_child import STREAM_HEAD, chunked, delta, event, writing
from tests.support.transports import BOTH

DIALECTS = list(ASK)
FIVE = [delta("", role="assistant"), delta("one"), delta(" two"), delta(" three"), delta(finish="stop")]
DONE = b"data: [DONE]\n\n"


@pytest.fixture(scope="module", params=BOTH)
def shared(request, tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("streams"), transport=request.param) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    return shared.fresh()


# -- strict readers --------------------------------------------------------------------------------------


def sse(body: bytes) -> list[tuple[str, str]]:
    """(event, data) of an event stream; fails on an event that a strict client would choke on."""
    found = []
    for block in re.split(r"\r\n\r\n|\n\n|\r\r", body.decode()):
        lines = [line for line in re.split(r"\r\n|\n|\r", block) if line and not line.startswith(":")]
        fields = [(line.partition(":")[0], line.partition(":")[2].removeprefix(" ")) for line in lines]
        if fields:
            data = "\n".join(value for name, value in fields if name == "data")
            assert data, f"an event without data: {block!r}"
            assert data == "[DONE]" or json.loads(data)
            found.append((next((value for name, value in fields if name == "event"), ""), data))
    return found


def contents(dialect: str, body: bytes) -> tuple[list[str], str]:
    """Pieces of text in a stream, and how it ended."""
    if dialect == "ollama":
        assert body.endswith(b"\n")
        lines = [json.loads(line) for line in body[:-1].split(b"\n")]
        assert all(isinstance(line, dict) for line in lines) and lines[-1]["done"] is True
        return [line["message"]["content"] for line in lines if line["message"]["content"]], "done"
    values = [(name, json.loads(data)) for name, data in sse(body) if data != "[DONE]"]
    if dialect == "anthropic":
        assert all(name == value["type"] for name, value in values)
        pieces = [value["delta"]["text"] for name, value in values if name == "content_block_delta"]
        return pieces, values[-1][0]
    if dialect == "responses":
        assert all(name == value["type"] for name, value in values)
        return [value["delta"] for _, value in values if "delta" in value], values[-1][0]
    pieces = [value["choices"][0]["delta"].get("content") for _, value in values]
    return [piece for piece in pieces if piece], values[-1][1]["choices"][0]["finish_reason"]


ENDING = {"ollama": "done", "anthropic": "message_stop", "openai": "stop",
          "responses": "response.completed"}


# -- FC-01 -----------------------------------------------------------------------------------------------


def lf():
    return [*map(event, FIVE), DONE]


def crlf():
    return [piece.replace(b"\n", b"\r\n") for piece in lf()]


def crlf_split():
    """Each write ends between CR and LF."""
    whole = b"".join(crlf())
    return [*re.findall(rb"[^\r]*\r|\n[^\r]*\r?", whole), b"\n"]


def no_space():
    return [piece.replace(b"data: ", b"data:") for piece in lf()]


def decorated():
    return [b"event: x\nid: 7\nretry: 10\n" + piece for piece in lf()]


def no_done():
    return lf()[:-1]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("encoding", [lf, crlf, crlf_split, no_space, decorated, no_done])
def test_every_encoding_of_the_same_events(gateway, dialect, encoding):
    def play(talk):
        talk.send(STREAM_HEAD)
        for piece in encoding():
            talk.send(chunked(piece, last=False))
        talk.send(b"0\r\n\r\n")
    if encoding is crlf_split:
        assert b"".join(crlf_split()) in (b"".join(crlf()), b"".join(crlf()) + b"\n")
    gateway.child.play = play
    answer = gateway.ask(dialect, stream=True)
    assert answer.status == 200
    assert contents(dialect, answer.body) == (["one", " two", " three"], ENDING[dialect])


@pytest.mark.parametrize("kind", ["content", "reasoning_content"])
@pytest.mark.parametrize("dialect", [*DIALECTS, "generate"])
def test_the_first_token_is_out_before_the_child_sends_its_second(gateway, dialect, kind):
    first_seen = threading.Event()
    in_time = []
    first = [FIVE[0], delta(**{kind: "one"})]

    def play(talk):
        talk.send(STREAM_HEAD + chunked(*map(event, first), last=False))
        in_time.append(first_seen.wait(5))
        talk.send(chunked(*map(event, FIVE[2:]), DONE))
    gateway.child.play = writing(play)
    path, body = {**ASK, "generate": ("/api/generate", {"model": MODEL, "prompt": "hi"})}[dialect]
    with gateway.connect() as sock:
        sock.sendall(post(path, json.dumps({**body, "stream": True}).encode(), "Connection: close"))
        read_until(sock, b"one")
        first_seen.set()
        assert b"three" in read_all(sock)
    assert in_time == [True]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_answer_ends_for_the_client_with_done_even_if_the_child_dawdles(gateway, dialect):
    release = threading.Event()

    def play(talk):
        talk.send(STREAM_HEAD + chunked(*lf(), last=False))
        release.wait(20)
        talk.send(b"0\r\n\r\n")
    gateway.child.play = play
    path, body = ASK[dialect]
    with gateway.connect() as sock:
        sock.sendall(post(path, json.dumps({**body, "stream": True}).encode()))
        try:
            read_until(sock, b"[DONE]" if dialect == "openai" else b"0\r\n\r\n")
        finally:
            release.set()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", ["ollama", "anthropic"])
def test_the_childs_connection_is_kept_when_the_framing_ends_just_after_the_last_event(gateway, dialect, stream):
    def play(talk):
        talk.send(STREAM_HEAD + chunked(*lf(), last=False))
        time.sleep(0.02)
        talk.send(b"0\r\n\r\n")
    gateway.rename_child(2 + stream + 2 * (dialect == "ollama"))
    gateway.child.play = play
    before = gateway.child.connections
    for _ in range(3):
        assert gateway.ask(dialect, stream=stream).status == 200
        time.sleep(0.05)
    assert gateway.child.connections - before == 1


# -- FC-02 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_comments_never_become_events(gateway, dialect):
    def play(talk):
        talk.send(STREAM_HEAD)
        for _ in range(3):
            talk.send(chunked(b":\n\n", last=False))
            time.sleep(0.02)
        talk.send(chunked(event(delta("one")), event(delta(" two")), b":\n\n", event(delta(finish="stop")), DONE))
    gateway.child.play = play
    answer = gateway.ask(dialect, stream=True)
    assert contents(dialect, answer.body) == (["one", " two"], ENDING[dialect])
    assert b"\nid:" not in answer.body and b"data: :" not in answer.body
    if dialect == "ollama":
        assert b"\n\n" not in answer.body


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_slow_load_puts_nothing_but_the_answer_into_the_stream(tmp_path, dialect):
    with GatewayUnderTest(tmp_path, loaded=False) as gateway:
        gateway.supervisor.load_seconds = 1.0
        gateway.child.play = lambda talk: talk.send(STREAM_HEAD + chunked(*lf()))
        answer = gateway.ask(dialect, stream=True)
    assert contents(dialect, answer.body) == (["one", " two", " three"], ENDING[dialect])


# -- FC-16 -----------------------------------------------------------------------------------------------


def call(name, arguments):
    return {"tool_calls": [{"index": 0, "id": "call_1", "type": "function",
                            "function": {"name": name, "arguments": arguments}}]}


TURNS = {
    "all": ([delta(role="assistant"), delta(reasoning_content="a"), delta("x", reasoning_content="b"), delta("y"),
             delta(**call("f", "{}")), delta(""), delta(finish="tool_calls")], ["thinking", "text", "tool_use"]),
    "nothing": ([delta(role="assistant"), delta(finish="stop")], None),
    "content": ([delta("xy"), delta(finish="stop")], ["text"]),
    "tool": ([delta(**call("f", "{}")), delta(finish="tool_calls")], ["tool_use"]),
    "one chunk": ([delta("xy", finish="stop")], ["text"]),
}


@pytest.mark.parametrize("turn", TURNS)
def test_anthropic_events_obey_the_grammar(gateway, turn):
    values, blocks = TURNS[turn]
    usage = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    gateway.child.play = lambda talk: talk.send(STREAM_HEAD + chunked(*map(event, [*values, usage]), DONE))
    found = [(name, json.loads(data)) for name, data in sse(gateway.ask("anthropic", stream=True).body)]
    names = " ".join(name for name, _ in found if name != "ping")
    block = "content_block_start( content_block_delta)* content_block_stop "
    assert re.fullmatch(f"message_start ({block})*message_delta message_stop", names), names
    starts = [value for name, value in found if name == "content_block_start"]
    assert [value["index"] for value in starts] == list(range(len(starts)))
    if blocks is not None:
        assert [value["content_block"]["type"] for value in starts] == blocks
    last = next(value for name, value in found if name == "message_delta")
    assert {"stop_reason", "stop_sequence"} <= set(last["delta"]) and last["usage"]["output_tokens"] == 2
    said = [value["delta"] for name, value in found if name == "content_block_delta"]
    if turn == "all":
        assert "".join(one.get("thinking", "") for one in said) == "ab"
        assert "".join(one.get("text", "") for one in said) == "xy"


# -- errors of the child -----------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", ["ollama", "anthropic"])
def test_refusal_of_the_child_keeps_its_status_and_words(gateway, dialect, stream):
    body = b'{"error":{"code":400,"message":"the request exceeds the context","type":"exceed_context_size_error"}}'
    gateway.child.play = lambda talk: talk.send(
        b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
        % (len(body), body))
    answer = gateway.ask(dialect, stream=stream)
    assert answer.status == 400 and "exceeds the context" in is_error_of(dialect, answer)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", ["ollama", "anthropic"])
@pytest.mark.parametrize(("code", "status"), [(500, 502), (400, 400)])
def test_error_event_before_any_token_is_a_status(gateway, dialect, stream, code, status):
    told = {"error": {"code": code, "message": "out of memory", "type": "server_error"}}
    gateway.child.play = lambda talk: talk.send(STREAM_HEAD + chunked(event(told)))
    answer = gateway.ask(dialect, stream=stream)
    assert answer.status == status and "out of memory" in is_error_of(dialect, answer)


def in_stream_error(dialect: str, body: bytes) -> str:
    if dialect == "ollama":
        return json.loads(body.splitlines()[-1])["error"]
    name, data = sse(body)[-1]
    assert dialect != "anthropic" or name == "error"
    value = json.loads(data)
    return value.get("response", value)["error"]["message"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_error_event_after_a_token_is_in_the_stream(gateway, dialect):
    told = {"error": {"code": 500, "message": "out of memory", "type": "server_error"}}
    gateway.child.play = lambda talk: talk.send(STREAM_HEAD + chunked(event(delta("one")), event(told)))
    answer = gateway.ask(dialect, stream=True)
    assert answer.status == 200 and b"one" in answer.body
    assert "out of memory" in in_stream_error(dialect, answer.body)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_child_killed_after_a_token_is_an_error_in_the_stream(gateway, dialect):
    def play(talk):
        talk.send(STREAM_HEAD + chunked(event(delta("one")), last=False))
        talk.close()
    gateway.child.play = play
    answer = gateway.ask(dialect, stream=True)
    assert answer.status == 200 and b"one" in answer.body
    assert "in the middle of its answer" in in_stream_error(dialect, answer.body)


@pytest.mark.parametrize("dialect", ["ollama", "anthropic"])
def test_child_killed_during_a_buffered_answer_is_a_502(gateway, dialect):
    def play(talk):
        talk.send(STREAM_HEAD + chunked(event(delta("one")), last=False))
        talk.close()
    gateway.child.play = play
    answer = gateway.ask(dialect, stream=False)
    assert answer.status == 502 and "in the middle" in is_error_of(dialect, answer)


@pytest.mark.parametrize("dialect", ["ollama", "anthropic"])
def test_events_that_are_no_json_are_the_childs_fault(gateway, dialect):
    gateway.child.play = lambda talk: talk.send(STREAM_HEAD + chunked(b"data: {nonsense\n\n"))
    answer = gateway.ask(dialect, stream=True)
    assert answer.status == 502 and "not JSON" in is_error_of(dialect, answer)
