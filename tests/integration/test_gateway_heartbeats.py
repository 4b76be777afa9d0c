"""A client that waits for a stream sees signs of life, which its parser passes over, and then the whole answer."""

import json
import threading

import pytest

from tests.support.fake_supervisor import eventually
from tests.support.gateway_under_test import ASK, MODEL, GatewayUnderTest, read_all
from tests.support.scripted_child import hello_world, json_answer

DIALECTS = list(ASK)
SIGNS = {"openai": b": still working\n\n", "anthropic": b'event: ping\ndata: {"type":"ping"}\n\n',
         "ollama": b'"content":""', "responses": b": still working\n\n"}
ENDS = {"openai": b"data: [DONE]\n\n", "anthropic": b"event: message_stop", "ollama": b'"done":true',
        "responses": b"event: response.completed"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("beats"), {"sse_ping_interval": 1}) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    return shared.fresh()


class Slow:
    """A child that begins its answer once it is told to."""

    def __init__(self, play=hello_world):
        self.may_answer = threading.Event()
        self._play = play

    def __call__(self, conversation):
        assert self.may_answer.wait(20)
        self._play(conversation)


def request(dialect, version=b"1.1", **more):
    path, body = ASK[dialect]
    data = json.dumps({**body, "stream": True, **more}).encode()
    return b"POST %b HTTP/%b\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%b" % (
        path.encode(), version, len(data), data)


def wait_for(sock, mark, count):
    """What came until `mark` had come so many times."""
    got = b""
    while got.count(mark) < count:
        data = sock.recv(65536)
        assert data, got
        got += data
    return got


def body_of(raw):
    """The payload of a chunked answer, strictly."""
    head, _, rest = raw.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ") and head.lower().count(b"transfer-encoding: chunked") == 1, head
    payload = b""
    while True:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        payload, end, rest = payload + rest[:length], rest[length:length + 2], rest[length + 2:]
        assert end == b"\r\n"
        if not length:
            assert not rest
            return payload


@pytest.mark.parametrize("dialect", DIALECTS)
def test_signs_come_before_the_answer_and_the_answer_is_whole(gateway, dialect):
    plain = gateway.ask(dialect, stream=True).body
    gateway.child.play = slow = Slow()
    with gateway.connect() as sock:
        sock.sendall(request(dialect))
        got = wait_for(sock, SIGNS[dialect], 2)
        slow.may_answer.set()
        body = body_of(got + read_all(sock))
    assert body.startswith(SIGNS[dialect]) or dialect == "ollama"
    assert ENDS[dialect] in body and b"Hello" in body and b" world" in body
    if dialect == "openai":
        assert body.replace(SIGNS[dialect], b"") == plain, "the child's bytes are as they were"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_error_after_them_is_told_inside_the_stream(gateway, dialect):
    gateway.child.play = slow = Slow(lambda conversation: conversation.send(
        json_answer(b'{"error":{"message":"the GPU is on fire","code":500}}', "500 Internal Server Error")))
    with gateway.connect() as sock:
        sock.sendall(request(dialect))
        got = wait_for(sock, SIGNS[dialect], 1)
        slow.may_answer.set()
        body = body_of(got + read_all(sock))
    assert b"the GPU is on fire" in body.split(SIGNS[dialect])[-1] and ENDS[dialect] not in body


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_client_of_http_1_0_gets_them_without_chunks(gateway, dialect):
    gateway.child.play = slow = Slow()
    with gateway.connect() as sock:
        sock.sendall(request(dialect, b"1.0"))
        got = wait_for(sock, SIGNS[dialect], 1)
        slow.may_answer.set()
        head, _, body = (got + read_all(sock)).partition(b"\r\n\r\n")
    assert b"chunked" not in head.lower() and ENDS[dialect] in body and b" world" in body
    assert b"\r\n" not in body


@pytest.mark.parametrize("dialect", ["ollama"])
def test_a_buffered_request_gets_none(gateway, dialect):
    gateway.child.play = slow = Slow()
    threading.Timer(2.5, slow.may_answer.set).start()
    answer = gateway.ask(dialect, stream=False)
    assert answer.status == 200 and SIGNS[dialect] not in answer.body.split(b"Hello")[0] and answer.json()


def test_a_client_that_leaves_meanwhile_is_noticed(gateway):
    closed = []
    gateway.child.play = lambda conversation: closed.append(conversation.client_closes())
    with gateway.connect() as sock:
        sock.sendall(request("openai"))
        wait_for(sock, SIGNS["openai"], 1)
    eventually(lambda: closed)
    assert closed == [True]


@pytest.mark.parametrize("dialect", ["anthropic"])
def test_while_a_model_loads_too(tmp_path, dialect):
    with GatewayUnderTest(tmp_path, {"sse_ping_interval": 1}, loaded=False) as gateway:
        gateway.supervisor.load_seconds = 2.5
        answer = gateway.ask(dialect, stream=True)
        assert answer.status == 200 and answer.body.count(SIGNS[dialect]) >= 1 and ENDS[dialect] in answer.body


def test_they_can_be_switched_off(tmp_path):
    with GatewayUnderTest(tmp_path, {"sse_ping_interval": -1}, loaded=False) as gateway:
        gateway.supervisor.load_seconds = 2.5
        answer = gateway.ask("openai", stream=True)
        assert b"still working" not in answer.body and ENDS["openai"] in answer.body


def _openai(url):
    client = pytest.importorskip("openai").OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)
    chunks = client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "hi"}], stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def _anthropic(url):
    client = pytest.importorskip("anthropic").Anthropic(base_url=url, api_key="none", max_retries=0)
    with client.messages.stream(model=MODEL, max_tokens=9, messages=[{"role": "user", "content": "hi"}]) as stream:
        return "".join(stream.text_stream)


def _ollama(url):
    client = pytest.importorskip("ollama").Client(host=url)
    return "".join(part.message.content or "" for part in client.chat(
        MODEL, [{"role": "user", "content": "hi"}], stream=True))


@pytest.mark.parametrize("talk", [_openai, _anthropic, _ollama])
def test_the_clients_people_have_pass_over_them(gateway, talk):
    gateway.child.play = slow = Slow()
    threading.Timer(2.5, slow.may_answer.set).start()
    assert talk(f"http://127.0.0.1:{gateway.supervisor.port}") == "Hello world"
