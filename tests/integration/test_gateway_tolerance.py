"""FC-09: what stock SDKs send is taken as it is meant; what an engine says of a prompt does not cost it its life."""

import json

import pytest

from blazar.supervisor.gateway import LAUNCHER
from tests.support.daemon import Daemon
from tests.support.gateway_under_test import ASK, MODEL, Answer, GatewayUnderTest, is_error_of
from tests.support.scripted_child import json_answer

DIALECTS = list(ASK)
TRANSLATED = ["ollama", "anthropic"]
NULLS = {"temperature": None, "max_tokens": None, "stop": None, "tools": None, "response_format": None, "stream": None,
         "top_p": None, "seed": None, "tool_choice": None, "logit_bias": None, "user": None, "n": None}
BRIEF = {"role": "developer", "content": "Be brief."}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("tolerance")) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    return shared.fresh()


def child_got(gateway):
    return json.loads(gateway.child.received[0].body)


def call(arguments, **more):
    return {"type": "function", "function": {"name": "f", "arguments": arguments}, **more}


# -- null is absent --------------------------------------------------------------------------------------


def test_nulls_of_openai_clients_pass_to_the_child(gateway):
    assert gateway.ask("openai", **NULLS).status == 200
    assert child_got(gateway) == {**ASK["openai"][1], **NULLS}


def test_nulls_of_ollama_clients_are_absent(gateway):
    answer = gateway.ask("ollama", options=None, format=None, keep_alive=None, think=None, tools=None, stream=None,
                         template=None, system=None, logprobs=None)
    assert answer.status == 200 and answer.headers["content-type"] == "application/x-ndjson"
    plain = {"model": MODEL, "messages": ASK["ollama"][1]["messages"], "stream": True,
             "stream_options": {"include_usage": True}}
    assert child_got(gateway) == plain
    gateway.fresh()
    nulls = dict.fromkeys(["temperature", "top_k", "top_p", "seed", "stop", "num_predict", "repeat_penalty", "num_ctx"])
    assert gateway.ask("ollama", options=nulls).status == 200
    assert child_got(gateway) == plain
    assert not gateway.supervisor.notes("keep_alive")


def test_nulls_of_anthropic_clients_are_absent(gateway):
    answer = gateway.ask("anthropic", temperature=None, stop_sequences=None, tools=None, tool_choice=None, system=None,
                         thinking=None, top_k=None, top_p=None, stream=None, metadata=None, output_config=None)
    assert answer.status == 200 and answer.json()["content"] == [{"type": "text", "text": "Hello world"}]
    assert child_got(gateway) == {"model": MODEL, "messages": ASK["anthropic"][1]["messages"], "stream": True,
                                  "stream_options": {"include_usage": True}, "max_tokens": 50}


# -- odd history -----------------------------------------------------------------------------------------


def test_odd_history_of_openai_clients_passes_to_the_child_as_the_bytes_it_is(gateway):
    """What a template makes of it is the engine's to say."""
    messages = [BRIEF, {"role": "assistant", "content": None, "tool_calls": [call('{"a": ')], "refusal": None},
                {"role": "tool", "content": "x"}, {"role": "user", "content": "a\ud800b"}]
    body = json.dumps({"model": MODEL, "messages": messages, "stream": None}).encode()
    assert gateway.request("POST", ASK["openai"][0], body).status == 200
    assert gateway.child.received[0].body == body and b"\\ud800" in body


def test_nulls_that_engines_stumble_over_are_left_out(gateway):
    """Within texts and schemas they stay."""
    said = {"role": "user", "content": "{\"name\": null}", "name": None}
    asked = {"role": "assistant", "content": None, "tool_calls": [call("{}", id=None)], "reasoning_content": None}
    function = {"name": "f", "description": None, "strict": None, "parameters": {"properties": {"a": {
        "const": None, "description": None}}}}
    answer = gateway.ask("openai", messages=[said, asked, {"role": "tool", "tool_call_id": None, "content": "x"}, 5],
                         tools=[{"type": "function", "function": function}, None])
    got = child_got(gateway)
    assert answer.status == 200 and got["messages"] == [
        {"role": "user", "content": "{\"name\": null}"},
        {"role": "assistant", "content": None, "tool_calls": [call("{}")]}, {"role": "tool", "content": "x"}, 5]
    assert got["tools"] == [{"type": "function", "function": {"name": "f", "parameters": function["parameters"]}}, None]


def test_odd_history_of_ollama_clients_is_mended(gateway):
    messages = [BRIEF, {"role": "assistant", "content": None, "tool_calls": [call('{"a": ', id=None)]},
                {"role": "tool", "tool_call_id": None, "content": "x"}, {"role": "user", "content": "a\ud800b"}]
    assert gateway.ask("ollama", messages=messages).status == 200
    system, asked, answered, user = child_got(gateway)["messages"]
    assert system == {"role": "system", "content": "Be brief."}
    assert asked["content"] == "" and json.loads(asked["tool_calls"][0]["function"]["arguments"]) == {
        "arguments": '{"a": '}
    assert answered["tool_call_id"] == asked["tool_calls"][0]["id"] and user["content"] == "a\ufffdb"


def test_odd_history_of_anthropic_clients_is_mended(gateway):
    messages = [BRIEF, {"role": "user", "content": "a\ud800b"}, {"role": "assistant", "content": None},
                {"role": "user", "content": [{"type": "text", "text": "x", "cache_control": None, "citations": None}]}]
    assert gateway.ask("anthropic", messages=messages).status == 200
    system, user, assistant, last = child_got(gateway)["messages"]
    assert system == {"role": "system", "content": "Be brief."} and user["content"] == "a\ufffdb"
    assert assistant["role"] == "assistant" and last == {"role": "user", "content": "x"}


@pytest.mark.parametrize(("dialect", "messages", "status"), [
    ("openai", [], 200), ("ollama", [], 200), ("anthropic", [], 400), ("anthropic", None, 400), ("ollama", None, 200)])
def test_no_messages(gateway, dialect, messages, status):
    """OpenAI's lane leaves them to the engine; Ollama's clients load a model this way."""
    answer = gateway.ask(dialect, messages=messages)
    assert answer.status == status
    if status == 400:
        assert "`messages` must hold at least one message" in is_error_of(dialect, answer)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(("model", "why"), [(None, "`model` is missing"), ("", "the name of a model"),
                                            (5, "the name of a model, not 5"), ([], "a list"), ({}, "an object"),
                                            (True, "true"), ("\ud800", "is not a model name")])
def test_a_model_that_is_none(gateway, dialect, model, why):
    answer = gateway.ask(dialect, model=model)
    assert answer.status == 400 and why in is_error_of(dialect, answer)
    assert gateway.child.received == []


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_unknown_model_is_told_with_names_like_it(gateway, dialect):
    answer = gateway.ask(dialect, model="sola:q4_0")
    assert answer.status == 404 and "did you mean solo:q4_0" in is_error_of(dialect, answer)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_of_a_repeated_key_the_last_counts_for_gateway_and_child_alike(gateway, dialect):
    path, body = ASK[dialect]
    doubled = json.dumps(body).encode().replace(b"{", b'{"model":"nobody","stream":true,', 1)[:-1] + b',"stream":false}'
    answer = gateway.request("POST", path, doubled)
    assert answer.status == 200 and answer.headers["content-type"].startswith("application/json")
    assert json.loads(gateway.child.received[0].body)["model"] == MODEL


# -- the child's own refusals ----------------------------------------------------------------------------

TOLD = b'{"error":{"code":%d,"message":"the prompt does not suit me","type":"invalid_request_error"}}'


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("stream", [True, False])
def test_a_childs_4xx_is_told_as_it_is(gateway, dialect, stream):
    gateway.child.play = lambda conversation: conversation.send(json_answer(TOLD % 400, "400 Bad Request"))
    answer = gateway.ask(dialect, stream=stream)
    assert answer.status == 400
    told = Answer(answer.status, {**answer.headers, "content-type": "application/json"}, answer.body)
    assert is_error_of(dialect, told) == "the prompt does not suit me"


def statuses(daemon, dialect, count=3):
    path, body = ASK[dialect]
    return {daemon.post(path, body | {"model": "moody:q4_0"})[0] for _ in range(count)}


@pytest.mark.parametrize(("status", "translated"), [(400, 400), (500, 502), (413, 413)])
def test_a_childs_refusal_does_not_end_it(tmp_path, status, translated):
    with Daemon(tmp_path, tuple(LAUNCHER)) as daemon:
        daemon.install("moody:q4_0", status=status, body=(TOLD % status).decode(),
                       headers={"Content-Type": "application/json", "Content-Length": str(len(TOLD % status))})
        daemon.start()
        assert statuses(daemon, "openai") == {status}
        assert statuses(daemon, "ollama") == statuses(daemon, "anthropic") == {translated}
        assert len(daemon.starts("moody:q4_0")) == 1 and daemon.state("moody:q4_0") == "ready"
        asked = [request for request in daemon.requests("moody:q4_0") if request["method"] == "POST"]
        assert len(asked) == 9, "each was asked once: a refusal is no reason to try again"
