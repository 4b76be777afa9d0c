"""`buffered_via_stream`: the child is asked for a stream, and the client gets the very answer that it gives without."""

import http.client
import json
import socket
import urllib.request

import pytest

from tests.integration.test_structured_engine import THINKS
from tests.support.fake_supervisor import eventually
from tests.support.gateway_under_test import MODEL, GatewayUnderTest
from tests.support.scripted_child import STREAM_HEAD, chunked, delta, event, json_answer
from tests.support.shell import Shell
from tests.support.tiny_gguf import tiny_gguf

TINY, THINKER = "tiny:f32", "thinker:f32"
CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
HI = [{"role": "user", "content": "hi"}]
SCHEMA = {"type": "json_schema", "json_schema": {"name": "a", "schema": {
    "type": "object", "properties": {"x": {"type": "boolean"}}, "required": ["x"]}}}
CORPUS = {
    "a chat": (CHAT, {"messages": HI, "max_tokens": 12}),
    "log probabilities": (CHAT, {"messages": HI, "max_tokens": 4, "logprobs": True, "top_logprobs": 2}),
    "a schema": (CHAT, {"messages": HI, "max_tokens": 60, "response_format": SCHEMA}),
    "a stop": (CHAT, {"messages": HI, "max_tokens": 30, "stop": ["e", "a", "o", "i"]}),
    "two choices": (CHAT, {"messages": HI, "max_tokens": 5, "n": 2}),
    "thoughts": (CHAT, {"model": THINKER, "messages": HI, "max_tokens": 60, "thinking_budget_tokens": 12,
                        "response_format": SCHEMA}),
    "thoughts in the text": (CHAT, {"model": THINKER, "messages": HI, "max_tokens": 9, "reasoning_format": "none"}),
    "a text": (TEXT, {"prompt": "Once upon", "max_tokens": 6}),
    "a text's probabilities": (TEXT, {"prompt": "Once upon", "max_tokens": 3, "logprobs": 2}),
    "tokens": (TEXT, {"prompt": [70, 71, 72], "max_tokens": 4}),
    "two texts": (TEXT, {"prompt": ["Once", "upon"], "max_tokens": 3}),
}
VOLATILE = ("id", "created", "timings")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    pytest.importorskip("gguf")
    shell = Shell(tmp_path_factory.mktemp("g"))
    shell.config.write_text(f'{shell.config.read_text()}buffered_via_stream = true\nchild_transport = "unix"\n'
                            "slots = 2\n")
    shell.ok("pull", str(tiny_gguf(shell.home / "tiny.gguf", ctx=1024)), "--name", TINY)
    shell.ok("pull", str(tiny_gguf(shell.home / "thinker.gguf", seed=1, ctx=1024, template=THINKS)), "--name", THINKER)
    shell.start()
    yield shell
    shell.stop()


def ask(daemon, path, body):
    request = urllib.request.Request(daemon.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as refused:
        return refused.code, json.load(refused)


def ask_engine(daemon, path, body):
    """The same of the engine itself, which has a socket and no secret."""
    connection = http.client.HTTPConnection("localhost", timeout=60)
    connection.sock = socket.socket(socket.AF_UNIX)
    name = body["model"].partition(":")[0]
    connection.sock.connect(str(next((daemon.home / ".local/share/blazar/run").glob(f"{name}*.sock"))))
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def steady(told):
    status, answer = told
    assert set(VOLATILE) <= set(answer)
    answer.get("usage", {}).pop("prompt_tokens_details", None)  # what is cached depends on who came before
    return status, {name: value for name, value in answer.items() if name not in VOLATILE}


@pytest.mark.parametrize("case", CORPUS)
def test_it_equals_what_the_engine_answers_without_a_stream(daemon, case):
    path, body = CORPUS[case]
    body = {"model": TINY, "temperature": 0, "seed": 1, **body}
    first = ask(daemon, path, body)
    assert first[0] == 200
    message = first[1]["choices"][0].get("message", {})
    assert bool(message.get("reasoning_content")) == (case == "thoughts")
    assert steady(first) == steady(ask_engine(daemon, path, body))


# -- with a scripted child -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("gathered"), {"buffered_via_stream": True}) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    return shared.fresh()


def test_the_child_is_asked_for_a_stream_and_the_client_sees_none(gateway):
    answer = gateway.ask("openai", max_tokens=9)
    sent = json.loads(gateway.child.received[-1].body)
    assert sent["stream"] is True and sent["stream_options"] == {"include_usage": True} and sent["max_tokens"] == 9
    assert answer.status == 200 and answer.headers["content-type"] == "application/json"
    assert answer.json()["choices"][0]["message"]["content"] == "Hello world"
    assert answer.json()["usage"] == {"prompt_tokens": 3, "completion_tokens": 2}
    assert "x-blazar-overhead-ms" in answer.headers


def test_a_client_that_leaves_ends_the_childs_work_at_once(gateway):
    closed = []

    def endless(conversation):
        conversation.send(STREAM_HEAD + chunked(event(delta("Hello")), last=False))
        closed.append(conversation.client_closes())

    gateway.child.play = endless
    body = json.dumps({"model": MODEL, "messages": HI}).encode()
    with gateway.connect() as sock:
        sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (
            len(body), body))
        eventually(lambda: gateway.child.received)
    eventually(lambda: closed)
    assert closed == [True]


@pytest.mark.parametrize(("bytes_", "status"), [
    (json_answer(b'{"error":{"code":400,"message":"no such sampler"}}', "400 Bad Request"), 400),
    (STREAM_HEAD + chunked(event({"error": {"code": 500, "message": "it broke"}})), 502),
    (STREAM_HEAD + chunked(event(delta("Hel")), last=False), 502),
])
def test_what_goes_wrong_is_told_with_its_status(gateway, bytes_, status):
    def play(conversation):
        conversation.send(bytes_)
        conversation.close()

    gateway.child.play = play
    answer = gateway.ask("openai")
    assert answer.status == status and answer.json()["error"]["message"]
