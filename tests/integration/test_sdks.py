"""The official Python clients of the three dialects against a running Blazar, unmodified."""

from typing import Literal

import pytest

from tests.support.shell import Shell
from tests.support.tiny_gguf import tiny_gguf

openai = pytest.importorskip("openai")
anthropic = pytest.importorskip("anthropic")
ollama = pytest.importorskip("ollama")
pydantic = pytest.importorskip("pydantic")

MESSAGES = [{"role": "user", "content": "Write two sentences about a quiet library."}]
TOKENS = 12
TINY, EXTRA, DEMO = "solo:f32", "extra:f32", "smollm2-135m:q4_1"


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    shell = Shell(tmp_path_factory.mktemp("home"))
    for seed, name in enumerate((TINY, EXTRA)):
        shell.ok("pull", str(tiny_gguf(shell.home / f"{seed}.gguf", seed=seed)), "--name", name)
    shell.start()
    yield shell
    shell.stop()


@pytest.fixture(params=[TINY, pytest.param(DEMO, marks=pytest.mark.real)])
def model(request, daemon):
    """The name of an installed model; the real one is fetched when a test first wants it."""
    if request.param == DEMO:
        pulled = daemon("pull", DEMO)
        if pulled.returncode != 0:
            pytest.skip(pulled.stderr)
    return request.param


@pytest.fixture
def openai_client(daemon):
    with openai.OpenAI(base_url=f"{daemon.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client


@pytest.fixture
def ollama_client(daemon):
    return ollama.Client(host=daemon.url, timeout=60)


@pytest.fixture
def anthropic_client(daemon):
    with anthropic.Anthropic(base_url=daemon.url, api_key="none", max_retries=0, timeout=60) as client:
        yield client


# -- OpenAI ----------------------------------------------------------------------------------------------


def test_openai_chat_buffered_and_streamed_say_the_same(openai_client, model):
    asked = {"model": model, "messages": MESSAGES, "temperature": 0, "max_tokens": TOKENS}
    whole = openai_client.chat.completions.create(**asked)
    assert whole.choices[0].message.role == "assistant"
    assert whole.choices[0].finish_reason in ("stop", "length")
    assert whole.usage.completion_tokens <= TOKENS
    pieces = list(openai_client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True}))
    text = "".join(choice.delta.content or "" for piece in pieces for choice in piece.choices)
    assert text == whole.choices[0].message.content != ""
    assert pieces[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_openai_completions(openai_client, model):
    asked = {"model": model, "prompt": "The library is", "temperature": 0, "max_tokens": TOKENS}
    whole = openai_client.completions.create(**asked).choices[0].text
    streamed = "".join(piece.choices[0].text for piece in openai_client.completions.create(**asked, stream=True)
                       if piece.choices)
    assert streamed == whole != ""


def test_openai_responses_buffered_and_streamed_say_the_same(openai_client, model):
    asked = {"model": model, "input": MESSAGES, "instructions": "Be brief.", "temperature": 0,
             "max_output_tokens": TOKENS}
    whole = openai_client.responses.create(**asked)
    assert whole.status in ("completed", "incomplete") and 0 < whole.usage.output_tokens <= TOKENS
    with openai_client.responses.stream(**asked) as stream:
        events = list(stream)
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    final = events[-1].response
    assert text == whole.output_text == final.output_text != ""
    assert (final.status, final.usage.output_tokens) == (whole.status, whole.usage.output_tokens)
    assert openai_client.responses.retrieve(final.id) == final.__class__.model_validate(final.model_dump())


def test_openai_responses_are_kept_listed_and_forgotten(openai_client):
    asked = {"model": TINY, "max_output_tokens": TOKENS}
    first = openai_client.responses.create(**asked, input="One?")
    second = openai_client.responses.create(**asked, input="Two?", previous_response_id=first.id)
    listed = list(openai_client.responses.input_items.list(second.id, limit=2, order="asc"))
    assert [item.content[0].text for item in listed] == ["One?", first.output_text, "Two?"]
    counted = openai_client.responses.input_tokens.count(model=TINY, input="Two?", previous_response_id=first.id)
    assert counted.input_tokens == second.usage.input_tokens
    with pytest.raises(openai.BadRequestError, match="has ended"):
        openai_client.responses.cancel(first.id)
    openai_client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        openai_client.responses.retrieve(first.id)


def test_openai_responses_hold_to_a_schema(openai_client):
    class Sky(pydantic.BaseModel):
        colour: Literal["blue", "grey"]

    asked = {"model": TINY, "input": "The sky, please.", "text_format": Sky}
    whole = openai_client.responses.with_raw_response.parse(**asked)
    assert whole.headers["x-blazar-structured-output"] == "json_schema"
    with openai_client.responses.stream(**asked, temperature=0) as stream:
        final = stream.get_final_response()
    assert isinstance(final.output_parsed, Sky) and isinstance(whole.parse().output_parsed, Sky)


def test_openai_stored_completions(openai_client):
    chats, asked = openai_client.chat.completions, {"model": TINY, "messages": MESSAGES, "max_tokens": TOKENS}
    whole = chats.create(**asked, store=True, metadata={"made": "here"})
    *_, last = chats.create(**asked, store=True, metadata={"made": "here"}, stream=True)
    chats.create(**asked)
    mine = [one.id for one in chats.list(metadata={"made": "here"}, model=TINY, limit=1)]
    assert mine == [whole.id, last.id]
    assert chats.retrieve(whole.id).choices == whole.choices
    assert [message.content for message in chats.messages.list(last.id)] == [MESSAGES[0]["content"]]
    assert chats.update(whole.id, metadata={"made": "there"}).metadata == {"made": "there"}
    assert [one.id for one in chats.list(metadata={"made": "here"})] == [last.id]
    assert chats.delete(last.id).deleted
    with pytest.raises(openai.NotFoundError):
        chats.retrieve(last.id)


def test_openai_lists_and_finds_models(openai_client, model):
    assert model in [listed.id for listed in openai_client.models.list()]
    assert openai_client.models.retrieve(model).id == model


def test_openai_meets_its_own_error_classes(openai_client):
    with pytest.raises(openai.NotFoundError, match="nobody"):
        openai_client.chat.completions.create(model="nobody", messages=MESSAGES)
    with pytest.raises(openai.NotFoundError):
        openai_client.models.retrieve("nobody")
    with pytest.raises(openai.BadRequestError):
        openai_client.chat.completions.create(model="", messages=MESSAGES)


# -- Anthropic -------------------------------------------------------------------------------------------


def test_anthropic_messages_buffered_and_streamed_say_the_same(anthropic_client, model):
    asked = {"model": model, "messages": MESSAGES, "max_tokens": TOKENS, "system": "Be brief.",
             "extra_body": {"temperature": 0}}
    whole = anthropic_client.messages.create(**asked)
    assert (whole.type, whole.role) == ("message", "assistant")
    assert whole.stop_reason in ("end_turn", "max_tokens")
    assert 0 < whole.usage.output_tokens <= TOKENS
    with anthropic_client.messages.stream(**asked) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == whole.content[0].text == final.content[0].text != ""
    assert final.stop_reason == whole.stop_reason
    assert final.usage.output_tokens == whole.usage.output_tokens


def test_anthropic_meets_its_own_error_classes(anthropic_client, model):
    with pytest.raises(anthropic.NotFoundError, match="nobody"):
        anthropic_client.messages.create(model="nobody", messages=MESSAGES, max_tokens=5)
    with pytest.raises(anthropic.BadRequestError):
        anthropic_client.messages.create(model=model, messages=MESSAGES, max_tokens=-5)


# -- Ollama ----------------------------------------------------------------------------------------------


def test_ollama_chat_buffered_and_streamed_say_the_same(ollama_client, model):
    asked = {"model": model, "messages": MESSAGES, "options": {"temperature": 0, "num_predict": TOKENS}}
    whole = ollama_client.chat(**asked)
    assert whole.done and whole.done_reason in ("stop", "length")
    assert 0 < whole.eval_count <= TOKENS and whole.prompt_eval_count > 0
    assert whole.total_duration >= whole.eval_duration > 0
    pieces = list(ollama_client.chat(**asked, stream=True))
    assert "".join(piece.message.content or "" for piece in pieces) == whole.message.content != ""
    assert [piece.done for piece in pieces] == [False] * (len(pieces) - 1) + [True]
    assert pieces[-1].eval_count == whole.eval_count


def test_ollama_generate(ollama_client, model):
    asked = {"model": model, "prompt": MESSAGES[0]["content"], "options": {"temperature": 0, "num_predict": TOKENS}}
    whole = ollama_client.generate(**asked)
    streamed = "".join(piece.response for piece in ollama_client.generate(**asked, stream=True))
    assert streamed == whole.response != ""


def test_ollama_lists_and_shows(ollama_client, model):
    listed = {entry.model: entry for entry in ollama_client.list().models}
    assert len(listed[model].digest) == 64 and listed[model].size > 0
    assert listed[model].details.format == "gguf" and listed[model].details.family == "llama"
    shown = ollama_client.show(model)
    assert "completion" in shown.capabilities and "message" in shown.template
    assert shown.modelinfo["general.architecture"] == "llama"


def test_ollama_sees_a_model_loaded_and_unloads_it(ollama_client, model):
    ollama_client.generate(model=model, prompt="hello", keep_alive="5m", options={"num_predict": 1})
    running = {entry.model: entry for entry in ollama_client.ps().models}
    assert running[model].size > 0 and running[model].context_length > 0
    answer = ollama_client.generate(model=model, keep_alive=0)
    assert (answer.done, answer.done_reason, answer.response) == (True, "unload", "")
    assert model not in [entry.model for entry in ollama_client.ps().models]


def test_ollama_meets_its_own_error_class(ollama_client):
    with pytest.raises(ollama.ResponseError, match="nobody") as caught:
        ollama_client.chat(model="nobody", messages=MESSAGES)
    assert caught.value.status_code == 404
    with pytest.raises(ollama.ResponseError, match="nobody"):
        list(ollama_client.chat(model="nobody", messages=MESSAGES, stream=True))


def test_ollama_deletes(ollama_client):
    assert ollama_client.delete(EXTRA).status == "success"
    assert EXTRA not in [entry.model for entry in ollama_client.list().models]
    with pytest.raises(ollama.ResponseError):
        ollama_client.show(EXTRA)


# -- what is kept ----------------------------------------------------------------------------------------


def test_what_was_acknowledged_outlives_a_kill(daemon):
    with openai.OpenAI(base_url=f"{daemon.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        with client.responses.stream(model=TINY, input="One?", max_output_tokens=TOKENS) as stream:
            *_, last = stream
        *_, told = client.chat.completions.create(model=TINY, messages=MESSAGES, max_tokens=5, store=True, stream=True)
        daemon.kill()
    daemon.start()
    with openai.OpenAI(base_url=f"{daemon.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        assert client.responses.retrieve(last.response.id).output_text == last.response.output_text
        assert client.chat.completions.retrieve(told.id).usage.completion_tokens == 5
        after = client.responses.create(model=TINY, input="Two?", previous_response_id=last.response.id,
                                        max_output_tokens=TOKENS)
        assert [item.content[0].text for item in client.responses.input_items.list(after.id, order="asc")] == [
            "One?", last.response.output_text, "Two?"]
