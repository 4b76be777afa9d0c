"""A prompt that the model cannot read whole is refused with both numbers, and never cut in silence."""

import base64
import json
import re

import pytest

from tests.support.fake_supervisor import eventually
from tests.support.gateway_under_test import ASK, MODEL, GatewayUnderTest, is_error_of
from tests.support.scripted_child import STREAM_HEAD, chunked, delta, events, hello_world, json_answer
from tests.support.tiny_mmproj import png

DIALECTS = list(ASK)
CTX = 2048
WORD = "antidisestablishmentarian "
SLOW_READER = {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}


def counting(conversation):
    """A child whose tokens are words."""
    path = conversation.request.head.split(b" ")[1]
    body = json.loads(conversation.request.body)
    if path == b"/apply-template":
        text = "".join(turn["content"] for turn in body["messages"])
        conversation.send(json_answer(json.dumps({"prompt": text}).encode()))
    elif path == b"/tokenize":
        conversation.send(json_answer(json.dumps({"tokens": list(range(len(body["content"].split())))}).encode()))
    else:
        hello_world(conversation)


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    gateway = GatewayUnderTest(tmp_path_factory.mktemp("preflight"), sees=True)
    gateway.supervisor.facts[MODEL] |= {"context_length": 16 * CTX}
    with gateway:
        yield gateway


@pytest.fixture
def gateway(shared):
    gateway = shared.fresh()
    gateway.child.play = counting
    return gateway


def turn(words):
    return [{"role": "user", "content": WORD * words}]


def cut(gateway):
    """How many prompts the gateway has seen cut."""
    page = gateway.request("GET", "/metrics").body.decode()
    found = re.search(rf'^blazar_prompts_truncated_total\{{model="{MODEL}"\}} (\d+)$', page, re.MULTILINE)
    return int(found[1]) if found else 0


def marks(gateway):
    lines = (gateway.supervisor.folder / "log" / "audit.jsonl").read_text().splitlines()
    return [json.loads(line)["truncated"] for line in lines]


def paths(gateway):
    return [received.head.split(b" ")[1].decode() for received in gateway.child.received]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_prompt_too_long_is_a_400_with_both_numbers_and_the_lever(gateway, dialect, stream):
    answer = gateway.ask(dialect, messages=turn(CTX + 1), stream=stream)
    told = is_error_of(dialect, answer)
    assert answer.status == 400
    assert f"{CTX + 1} tokens > {CTX} maximum" in told and "[model_overrides" in told and "--ctx" in told
    assert "/v1/chat/completions" not in paths(gateway), "the engine was not asked to read it"
    if dialect == "openai":
        assert answer.json()["error"]["code"] == "context_length_exceeded"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_one_that_fits_exactly_is_answered(gateway, dialect):
    assert gateway.ask(dialect, messages=turn(CTX), stream=False).status == 200
    assert paths(gateway) == ["/apply-template", "/tokenize", "/v1/chat/completions"]
    sent = json.loads(gateway.child.received[-1].body)
    assert sent["messages"] == turn(CTX), "what the child gets is what came"


def test_one_that_surely_fits_costs_no_question(gateway):
    assert gateway.ask("openai", messages=turn(8)).status == 200
    assert paths(gateway) == ["/v1/chat/completions"]


@pytest.mark.parametrize(("prompt", "status"), [
    (WORD * (CTX + 1), 400), (WORD * CTX, 200), ([12345] * (CTX + 1), 400), ([12345] * CTX, 200),
    (["one", WORD * (CTX + 1)], 400), ([WORD * 400] * 4, 200), ([[7] * 20, [12345] * (CTX + 1)], 400),
])
def test_completions_in_every_form_of_a_prompt(gateway, prompt, status):
    answer = gateway.request("POST", "/v1/completions", {"model": MODEL, "prompt": prompt})
    assert answer.status == status, answer.body


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_cannot_be_counted_is_left_to_the_engine(gateway, dialect):
    def no_template(conversation):
        if b"/apply-template" in conversation.request.head:
            conversation.send(json_answer(b'{"error":{"message":"no"}}', "501 Not Implemented"))
        else:
            hello_world(conversation)

    gateway.child.play = no_template
    assert gateway.ask(dialect, messages=turn(CTX * 2), stream=False).status == 200


def test_a_picture_is_not_counted_as_text(gateway):
    noise = base64.b64encode(png(1, 2, 3, side=2) + bytes(30_000)).decode()
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{noise}"}}
    gateway.ask("openai", messages=[{"role": "user", "content": [picture]}])
    assert paths(gateway) == ["/v1/chat/completions"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_engines_own_refusal_carries_the_lever_too(gateway, dialect):
    refusal = {"error": {"code": 400, "message": "the request exceeds the available context size", "n_ctx": CTX,
                         "type": "exceed_context_size_error", "n_prompt_tokens": 3000}}
    gateway.child.play = lambda conversation: conversation.send(
        json_answer(json.dumps(refusal).encode(), "400 Bad Request"))
    answer = gateway.ask(dialect, stream=False)
    told = is_error_of(dialect, answer)
    assert answer.status == 400 and f"3000 tokens > {CTX} maximum" in told and "[model_overrides" in told


def test_any_other_400_of_the_engine_passes_unchanged(gateway):
    body = b'{"error":{"code":400,"message":"grammar: oops","type":"invalid_request_error"}}'
    gateway.child.play = lambda conversation: conversation.send(json_answer(body, "400 Bad Request"))
    answer = gateway.ask("openai")
    assert (answer.status, answer.body) == (400, body)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_500_about_the_request_itself_is_a_400(gateway, dialect):
    body = b'{"error":{"code":500,"message":"Failed to parse tools: Missing tool type","type":"server_error"}}'
    gateway.child.play = lambda conversation: conversation.send(json_answer(body, "500 Internal Server Error"))
    answer = gateway.ask(dialect, stream=False)
    assert answer.status == 400 and "Failed to parse tools" in is_error_of(dialect, answer)


def test_an_engine_that_cuts_a_prompt_is_found_out(gateway):
    def cutting(conversation):
        if b"/v1/chat" in conversation.request.head:
            conversation.send(STREAM_HEAD + chunked(*events([delta("Hello"), delta(finish="stop"), SLOW_READER])))
        else:
            counting(conversation)

    gateway.child.play = cutting
    before = cut(gateway)
    assert gateway.ask("ollama", messages=turn(CTX), stream=False).status == 200
    assert gateway.ask("ollama", stream=False).status == 200
    eventually(lambda: marks(gateway)[-2:] == [True, False])
    assert cut(gateway) == before + 1


def test_a_model_that_is_not_loaded_is_loaded_to_count(tmp_path):
    gateway = GatewayUnderTest(tmp_path, loaded=False)
    gateway.supervisor.facts[MODEL] = {"context_length": CTX}
    with gateway:
        gateway.child.play = counting
        answer = gateway.ask("openai", messages=turn(CTX + 1))
        assert answer.status == 400 and "this one was made for 2048" in is_error_of("openai", answer)


def test_it_can_be_switched_off(tmp_path):
    with GatewayUnderTest(tmp_path, {"prompt_preflight": False}) as gateway:
        gateway.child.play = counting
        assert gateway.ask("openai", messages=turn(CTX + 1)).status == 200
        assert paths(gateway) == ["/v1/chat/completions"]
