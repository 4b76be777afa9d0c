"""The semantic cache through the gateway: what is answered from it in each dialect, and what is not (FC-05)."""

import json

import pytest

from tests.support import exposition
from tests.support.cached import ANN, ON, WORDS, Cached
from tests.support.fake_supervisor import eventually
from tests.support.gateway_under_test import ASK, MODEL, GatewayUnderTest, is_error_of
from tests.support.scripted_child import STREAM_HEAD, chunked, delta, event, json_answer

KEYS = [{"name": "ann", "key": "sk-ann"}, {"name": "bob", "key": "sk-bob"},
        {"name": "eve", "key": "sk-eve", "models": ["other"]}]
BOB, EVE = ({"Authorization": f"Bearer sk-{name}"} for name in ("bob", "eve"))


def audited(gateway):
    """The audit log, once the last request that was asked is in it."""
    gateway.ask("openai", {**ANN, "X-Request-Id": "the-last", "X-Blazar-Cache": "off"})
    text = eventually(lambda: "the-last" in (found := gateway.supervisor.paths.audit_log.read_text()) and found, 20)
    gateway.supervisor.paths.audit_log.write_text("")
    return list(map(json.loads, text.splitlines()))


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with Cached(tmp_path_factory.mktemp("cache"), {"keys": KEYS, "semantic_cache": ON}) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    return shared.fresh()


@pytest.mark.parametrize("dialect", ASK)
@pytest.mark.parametrize("stream", [False, True])
def test_nearly_the_same_question_gets_the_same_answer(gateway, dialect, stream):
    gateway.thinks = dialect == "ollama"
    warmth = {"temperature": list(ASK).index(dialect) / 8 + stream / 16}  # apart from the others
    ask = {"dialect": dialect, "stream": stream, **({"options": warmth} if dialect == "ollama" else warmth)}
    first = gateway.say("What is a zebra?", **ask)
    assert first[0] == "miss" and first[1].startswith("answer ")
    assert gateway.say("what is this: a zebra", **ask) == ("hit", first[1])
    assert gateway.say("What is a zebra?", **ask) == ("hit", first[1])
    assert len(gateway.chats()) == 1
    assert gateway.say("Something else entirely", **ask)[0] == "miss"
    lines = [line for line in audited(gateway) if line["dialect"] == dialect and line["stream"] == stream]
    assert [line["cache"] for line in lines[:3]] == ["miss", "hit", "hit"]
    assert lines[1]["status"] == 200 and lines[0]["completion_tokens"] == 3 and lines[1]["completion_tokens"] == 0


def test_what_a_hit_looks_like(gateway):
    first = gateway.ask("openai", ANN, messages=[{"role": "user", "content": "shape of a hit"}]).json()
    answer = gateway.ask("openai", ANN, messages=[{"role": "user", "content": "shape of a hit!"}])
    value = answer.json()
    assert int(answer.headers["age"]) < 60 and float(answer.headers["x-blazar-cache-similarity"]) == 1.0
    assert value["object"] == "chat.completion" and value["id"].startswith("chatcmpl-") and value["model"] == MODEL
    assert value["choices"][0]["message"] == {**first["choices"][0]["message"]}
    assert value["choices"][0]["finish_reason"] == "stop" and value["usage"]["completion_tokens"] == 3
    counted = gateway.request("GET", "/metrics", headers=ANN).body.decode()
    assert exposition.value(exposition.read(counted), "blazar_semantic_cache_total", model=MODEL, outcome="hit") >= 1


def test_an_answer_serves_all_dialects_that_ask_the_engine_the_same(gateway):
    ask = {"options": {"num_predict": 50}}
    first = gateway.say("shared between them", "ollama", **ask)
    assert gateway.say("Shared between them", "anthropic") == ("hit", first[1])
    assert gateway.say("shared between them.", max_tokens=50) == ("hit", first[1])


@pytest.mark.parametrize("more", [{"temperature": 0.5}, {"max_tokens": 7}, {"stop": ["x"]}, {"seed": 9},
                                  {"response_format": {"type": "json_object"}}, {"user": "someone"},
                                  {"chat_template_kwargs": {"a": 1}}, {"unknown": 1}])
def test_whatever_shapes_the_answer_keeps_them_apart(gateway, more):
    gateway.say("apart or not")
    ran = len(gateway.chats())
    assert gateway.say("apart or not", **more)[0] == "miss" and len(gateway.chats()) == ran + 1


def test_earlier_turns_and_the_system_text_keep_them_apart(gateway):
    asks = [[{"role": "system", "content": system}, {"role": "user", "content": "before"},
             {"role": "assistant", "content": before}, {"role": "user", "content": "and now"}]
            for system in ("a", "b") for before in ("x", "y")]
    for messages in asks:
        assert gateway.ask("openai", ANN, messages=messages).headers["x-blazar-cache"] == "miss"
    assert gateway.ask("openai", ANN, messages=asks[0]).headers["x-blazar-cache"] == "hit"
    assert gateway.ask("anthropic", ANN, messages=[{"role": "user", "content": "and now"}],
                       system="c").headers["x-blazar-cache"] == "miss"


def test_nothing_crosses_keys(gateway):
    first = gateway.say("whose is it", key=ANN)
    assert gateway.say("whose is it", key=BOB)[0] == "miss"
    assert gateway.say("whose is it", key=ANN) == ("hit", first[1])
    for dialect in ASK:
        answer = gateway.ask(dialect, EVE, messages=[{"role": "user", "content": "whose is it"}])
        assert answer.status == 403 and "may not use" in is_error_of(dialect, answer)


def test_nor_to_another_key_of_the_same_name(tmp_path):
    with Cached(tmp_path, {"keys": KEYS, "semantic_cache": ON}) as gateway:
        gateway.fresh()
        first = gateway.say("whose is it")
        assert gateway.say("whose is it") == ("hit", first[1])
        gateway.supervisor.link().note("keys", keys=[{"name": "ann", "key": "sk-new"}])
        eventually(lambda: gateway.request("GET", "/v1/models", headers=ANN).status == 401)
        assert gateway.say("whose is it", key={"x-api-key": "sk-new"})[0] == "miss"


def test_the_header_says_otherwise(gateway):
    first = gateway.say("by the header")
    outcome, fresh = gateway.say("by the header", headers={"X-Blazar-Cache": "off"})
    assert outcome is None and fresh != first[1]
    assert gateway.say("by the header") == ("hit", first[1]), "and what was fresh is not kept"
    answer = gateway.ask("openai", {**ANN, "X-Blazar-Cache": "perhaps"})
    assert answer.status == 400 and "neither yes nor no" in is_error_of("openai", answer)


TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}


@pytest.mark.parametrize("more", [{"tools": [TOOL]}, {"n": 2}, {"logprobs": True},
                                  {"messages": [{"role": "user", "content": "hi"},
                                                {"role": "assistant", "content": "go on"}]}])
def test_what_is_more_than_text_passes_by(gateway, more):
    ask = {"messages": [{"role": "user", "content": "passes by"}], **more}
    for _ in range(2):
        assert gateway.ask("openai", ANN, **ask).headers["x-blazar-cache"] == "bypass"
    assert len(gateway.child.received) == 2
    assert "x-blazar-cache" not in gateway.request("POST", "/api/embed", {"model": WORDS, "input": "a"}, ANN).headers


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", ["openai", "ollama", "anthropic"])
def test_answers_that_were_cut_off_are_not_kept(gateway, dialect, stream):
    gateway.finish = "length"
    for number in range(2):
        assert gateway.say(f"cut off in {dialect} {stream}", dialect, stream=stream)[0] == "miss", number


@pytest.mark.parametrize("dialect", ["openai", "ollama", "anthropic"])
def test_nor_are_broken_ones(gateway, dialect):
    def breaks(conversation):
        if b"/v1/embeddings" in conversation.request.head:
            return gateway.play(conversation)
        conversation.send(STREAM_HEAD + chunked(event(delta("half an ")), last=False))
        return conversation.close()

    gateway.child.play = breaks
    gateway.ask(dialect, ANN, messages=[{"role": "user", "content": f"broken in {dialect}"}], stream=True)
    gateway.child.play = gateway.play
    assert gateway.say(f"broken in {dialect}", dialect, stream=True)[0] == "miss"


def test_without_vectors_requests_are_answered_all_the_same(gateway):
    def fails(conversation):
        if b"/v1/embeddings" in conversation.request.head:
            return conversation.send(json_answer(b'{"error":{"message":"broken"}}', "500 Internal Server Error"))
        return gateway.play(conversation)

    gateway.child.play = fails
    for dialect in ASK:
        assert gateway.say(f"no vectors for {dialect}", dialect)[0] == "bypass"
    assert "the semantic cache has no vector from words:f16" in gateway.supervisor.log()


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_that_waits_for_its_vector_can_be_cancelled(gateway, stream):
    def hangs(conversation):
        conversation.client_closes(20)

    gateway.child.play = hangs
    with gateway.connect() as sock:
        body = json.dumps({"model": MODEL, "stream": stream,
                           "messages": [{"role": "user", "content": "hangs"}]}).encode()
        sock.settimeout(20)
        sock.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n"
                     b"Authorization: Bearer sk-ann\r\nX-Request-Id: vec\r\n\r\n%b" % (len(body), body))
        eventually(lambda: gateway.child.received, 20)
        assert gateway.request("DELETE", "/api/requests/vec", headers=ANN).status == 200
        assert sock.recv(65536).startswith(b"HTTP/1.1 410 ")


def test_off_it_is_asked_for_by_the_header_alone(tmp_path):
    with Cached(tmp_path) as gateway:
        gateway.fresh()
        assert [gateway.say("opted in", key={})[0] for _ in range(2)] == [None, None]
        assert [gateway.say("opted in", key={}, headers={"X-Blazar-Cache": "on"})[0] for _ in range(2)] == [
            "miss", "hit"]
        gateway.supervisor.installed.remove(WORDS)
        gateway.supervisor.push()
        answer = eventually(lambda: (one := gateway.ask("openai", {"X-Blazar-Cache": "on"})).status == 400 and one, 20)
        assert "no embedding model is installed" in is_error_of("openai", answer)


def test_without_an_embedding_model_there_is_a_warning(tmp_path):
    with GatewayUnderTest(tmp_path, {"semantic_cache": ON}) as gateway:
        assert [gateway.ask("openai").headers["x-blazar-cache"] for _ in range(2)] == ["bypass"] * 2
        assert gateway.supervisor.log().count("no embedding model to compare questions with") == 1
