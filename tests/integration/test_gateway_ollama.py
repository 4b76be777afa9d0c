"""What Ollama's fields make the gateway ask of its child and of the supervisor, and what its clients then read."""

import json

import pytest

from tests.support.fake_supervisor import endpoint
from tests.support.gateway_under_test import MODEL, GatewayUnderTest, is_error_of
from tests.support.scripted_child import STREAM_HEAD, chunked, delta, event, json_answer
from tests.support.wire import ndjson

COUNTS = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
OWN = [{"content": "x = ", "stop": False}, {"content": "1", "stop": True, "stop_type": "limit",
                                            "timings": {"prompt_n": 4, "predicted_n": 2, "predicted_ms": 5}}]


class Engine:
    """Plays a child that knows its template and its tokens: each letter is one."""

    def __init__(self, *chunks):
        self.chunks = chunks or (delta("Hello"), delta(finish="stop"), COUNTS)
        self.asked = []

    def __call__(self, talk):
        path, body = talk.request.head.split()[1].decode(), json.loads(talk.request.body)
        self.asked.append((path, body))
        if path == "/apply-template":
            talk.send(json_answer(json.dumps({"prompt": f"<{body['messages'][-1]['content']}>"}).encode()))
        elif path == "/tokenize":
            tokens = [ord(letter) for letter in body["content"]]
            talk.send(json_answer(json.dumps({"tokens": [1, *tokens] if body["add_special"] else tokens}).encode()))
        else:
            talk.send(STREAM_HEAD + chunked(*map(event, self.chunks), b"data: [DONE]\n\n"))

    def paths(self):
        return [path for path, _ in self.asked]


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    with GatewayUnderTest(tmp_path_factory.mktemp("ollama")) as gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    fresh = shared.fresh()
    fresh.child.play = Engine()
    return fresh


def generate(gateway, stream=False, **fields):
    answer = gateway.request("POST", "/api/generate", {"model": MODEL, "stream": stream, **fields})
    assert answer.status == 200, answer
    lines = ndjson(answer.body) if stream else [answer.json()]
    return {**lines[-1], "response": "".join(line["response"] for line in lines)}


def codes(text):
    return [ord(letter) for letter in text]


@pytest.mark.parametrize("stream", [False, True])
def test_context_is_given_and_gone_on_from(gateway, stream):
    first = generate(gateway, stream, prompt="hi")
    assert first["context"] == [1, *codes("<hi>Hello")] and first["response"] == "Hello"
    again = generate(gateway, stream, prompt="on", context=first["context"], format={"type": "object"})
    sent = [body for path, body in gateway.child.play.asked if path == "/v1/completions"]
    assert sent[0]["prompt"] == [*first["context"], *codes("<on>")] and sent[0]["json_schema"] == {"type": "object"}
    assert "messages" not in sent[0] and again["context"] == [*sent[0]["prompt"], *codes("Hello")]
    assert again["eval_count"] == 2


@pytest.mark.parametrize("fields", [{"raw": True}, {"suffix": "end"}])
def test_no_context_without_a_template(gateway, fields):
    assert "context" not in generate(gateway, prompt="hi", **fields)
    assert len(gateway.child.play.asked) == 1


def test_an_engine_that_tells_no_tokens_costs_the_context_alone(gateway):
    def play(talk):
        if b"/apply-template" in talk.request.head:
            talk.send(json_answer(b'{"error":{"code":500,"message":"no"}}', "500 Internal Server Error"))
        else:
            Engine()(talk)
    gateway.child.play = play
    told = generate(gateway, prompt="hi")
    assert told["response"] == "Hello" and told["done"] and "context" not in told


@pytest.mark.parametrize("stream", [False, True])
def test_a_gap_is_filled(gateway, stream):
    gateway.child.play = Engine(*OWN)
    told = generate(gateway, stream, prompt="def f(): ", suffix="return x")
    assert gateway.child.play.asked[0][0] == "/infill" and gateway.child.play.asked[0][1]["input_suffix"] == "return x"
    assert (told["response"], told["done_reason"], told["eval_count"], told["prompt_eval_count"]) == (
        "x = 1", "length", 2, 4)


def test_a_model_without_marks_for_gaps_says_so(gateway):
    gateway.child.play = lambda talk: talk.send(json_answer(
        b'{"error":{"code":501,"message":"Infill is not supported by this model: prefix token is missing. ",'
        b'"type":"not_supported_error"}}', "501 Not Implemented"))
    answer = gateway.request("POST", "/api/generate", {"model": MODEL, "prompt": "a", "suffix": "b"})
    assert answer.status == 400 and "FIM tokens" in is_error_of("ollama", answer)


@pytest.mark.parametrize("think", [True, "high"])
def test_a_model_that_cannot_think_is_not_asked_to(gateway, think):
    answer = gateway.ask("ollama", think=think)
    assert answer.status == 400 and "'thinking'" in is_error_of("ollama", answer)
    assert gateway.child.play.asked == [] and gateway.ask("ollama", think=False).status == 200


def test_thinking_is_asked_for_and_told_apart(shared):
    gateway = shared.fresh()
    gateway.supervisor.facts[MODEL] = {"capabilities": ["completion", "thinking"]}
    gateway.supervisor.push()
    gateway.child.play = Engine(delta(reasoning_content="hm"), delta("so"), delta(finish="stop"), COUNTS)
    told = gateway.ask("ollama", think="low", stream=False).json()
    assert told["message"] == {"role": "assistant", "content": "so", "thinking": "hm"}
    assert gateway.child.play.asked[0][1]["chat_template_kwargs"] == {
        "enable_thinking": True, "reasoning_effort": "low"}
    lines = ndjson(gateway.ask("ollama", think=True).body)
    assert [line["message"].get("thinking") for line in lines] == ["hm", None, None]
    del gateway.supervisor.facts[MODEL]
    gateway.supervisor.push()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("top", [0, 1])
def test_logprobs(gateway, stream, top):
    token = {"token": "Hello", "logprob": -0.5, "bytes": [72], "id": 9,
             "top_logprobs": [{"token": "Hello", "logprob": -0.5}, {"token": "Hi", "logprob": None}]}
    chunk = delta("Hello")
    chunk["choices"][0]["logprobs"] = {"content": [token, "odd"]}
    gateway.child.play = Engine(chunk, delta(finish="stop"), COUNTS)
    answer = gateway.ask("ollama", stream=stream, logprobs=True, top_logprobs=top)
    lines = ndjson(answer.body) if stream else [answer.json()]
    plain = {"token": "Hello", "logprob": -0.5, "bytes": [72]}
    more = {"top_logprobs": [{"token": "Hello", "logprob": -0.5, "bytes": None}]} if top else {}
    assert [line["logprobs"] for line in lines if "logprobs" in line] == [[plain | more]]
    assert gateway.child.play.asked[0][1]["top_logprobs"] == 1


def wanted(gateway):
    return [message.get("ctx") for message in gateway.supervisor.notes("ensure_ready")]


def test_num_ctx_asks_the_supervisor_only_when_it_must(tmp_path):
    with GatewayUnderTest(tmp_path) as gateway:
        address = gateway.child.address
        gateway.supervisor.facts[MODEL] = {"context_length": 8192}
        gateway.supervisor.push()

        def ask(tokens):
            return gateway.ask("ollama", options={"num_ctx": tokens}).status
        assert [ask(tokens) for tokens in (2048, 1, 0, -1)] == [200] * 4 and wanted(gateway) == []
        gateway.supervisor.loadable[MODEL] = endpoint(MODEL, address, 2, ctx=4096)
        assert ask(4096) == 200 and wanted(gateway) == [4096]
        assert ask(4096) == 200 and ask(3000) == 200 and wanted(gateway) == [4096]
        assert ask(1 << 30) == 200 and wanted(gateway) == [4096, 8192], "never more than it was made for"
        assert ask(8192) == 200 and wanted(gateway) == [4096, 8192], "what cannot be had is not asked for again"
        # a load without a prompt has its context too
        gateway.supervisor.loadable[MODEL] = endpoint(MODEL, address, 3, ctx=8192)
        gateway.supervisor.loaded.clear()
        gateway.supervisor.push()
        loaded = gateway.request("POST", "/api/generate", {"model": MODEL, "options": {"num_ctx": 8192}})
        assert loaded.json()["done_reason"] == "load" and wanted(gateway)[-1] == 8192


def test_system_one_is_refused_with_words(gateway):
    answer = gateway.request("POST", "/v1/systemone", {"model": MODEL, "state": "s", "questions": {}})
    assert answer.status == 400 and "`format`" in is_error_of("ollama", answer)
