"""Frameworks that are clients of several dialects: LangChain, `llm` and LiteLLM. They chat, stream, call tools, have
answers formed and texts embedded.

Too large for every run: `make test-frameworks` installs them into a place of their own and runs this.
"""

import functools
import json
import os
import shutil
import subprocess
import sys

import pytest

from tests.support.gateway_under_test import MODEL as SCRIPTED
from tests.support.gateway_under_test import GatewayUnderTest
from tests.support.scripted_child import STREAM_HEAD, chunked, json_answer, writing
from tests.support.shell import Shell
from tests.support.tiny_gguf import tiny_gguf
from tests.support.wire import call, chunk, counts, sse

pytestmark = pytest.mark.frameworks

MODEL, WORDS = "solo:f32", "words:f32"
ASKED = "Write about a quiet library."
KINDS = ["openai", "ollama", "anthropic"]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    shell = Shell(tmp_path_factory.mktemp("frameworks"))
    for pooling, name in enumerate((MODEL, WORDS)):
        shell.ok("pull", str(tiny_gguf(shell.home / f"{pooling}.gguf", pooling=pooling)), "--name", name)
    shell.start()
    yield shell
    shell.stop()


def langchain(kind, url, model=MODEL):
    """A chat model of LangChain that asks in this dialect."""
    module = pytest.importorskip(f"langchain_{kind}")
    if kind == "openai":
        return module.ChatOpenAI(model=model, base_url=f"{url}/v1", api_key="none", max_tokens=24, temperature=0,
                                 stream_usage=True)
    if kind == "ollama":
        return module.ChatOllama(model=model, base_url=url, num_predict=24, temperature=0)
    return module.ChatAnthropic(model=model, base_url=url, api_key="none", max_tokens=24, temperature=0)


def same(whole, streamed):
    """An engine does not stream the beginning of a character that never ends, which noise may have last."""
    return whole.rstrip("\ufffd") == streamed.rstrip("\ufffd")


def summed(pieces):
    return functools.reduce(lambda sum, piece: sum + piece, pieces)


@pytest.mark.parametrize("kind", KINDS)
def test_langchain_chats_and_streams_the_same(daemon, kind):
    model = langchain(kind, daemon.url)
    whole, streamed = model.invoke(ASKED), summed(model.stream(ASKED))
    assert same(whole.text, streamed.text)
    assert whole.usage_metadata["input_tokens"] == streamed.usage_metadata["input_tokens"] > 0


@pytest.mark.parametrize("kind", KINDS)
def test_langchain_has_an_answer_formed(daemon, kind):
    light = {"title": "light", "description": "x", "type": "object", "required": ["on"], "additionalProperties": False,
             "properties": {"on": {"type": "boolean"}}}
    method = "function_calling" if kind == "anthropic" else "json_schema"
    asked = langchain(kind, daemon.url).with_structured_output(light, method=method)
    assert asked.invoke("Is the light on?")["on"] in (True, False)


@pytest.mark.parametrize("kind", ["openai", "ollama"])
def test_langchain_embeds(daemon, kind):
    module = pytest.importorskip(f"langchain_{kind}")
    if kind == "ollama":
        model = module.OllamaEmbeddings(model=WORDS, base_url=daemon.url)
    else:
        model = module.OpenAIEmbeddings(model=WORDS, base_url=f"{daemon.url}/v1", api_key="none",
                                        check_embedding_ctx_length=False)  # else it asks the network for a tokenizer
    first, second = model.embed_documents(["one", "two"])
    assert len(first) == len(second) == 64 and model.embed_query("one") == pytest.approx(first, abs=1e-3)


@pytest.fixture(scope="module")
def calling(tmp_path_factory):
    """A gateway whose engine calls the tool it is offered, and tells its result: noise calls none on its own."""
    with GatewayUnderTest(tmp_path_factory.mktemp("calling"), installed=(SCRIPTED,)) as gateway:
        gateway.supervisor.facts[SCRIPTED] = {"capabilities": ["completion", "tools", "thinking"]}
        gateway.supervisor.push()
        gateway.child.play = writing(call_then_tell)
        yield gateway


def url_of(gateway):
    return f"http://127.0.0.1:{gateway.supervisor.port}"


def call_then_tell(conversation):
    asked = json.loads(conversation.request.body)
    last = asked["messages"][-1]
    if last["role"] == "tool":
        says(conversation, asked, "stop", content=f"it said {text_of(last)}", reasoning_content="Read it.")
    else:
        name = asked["tools"][0]["function"]["name"]
        says(conversation, asked, "tool_calls", content=None,
             tool_calls=[{**call(0, '{"on": true}' if name == "light" else "{}", "call_1", name), "type": "function"}])


def text_of(message):
    content = message["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def says(conversation, asked, reason, **message):
    if asked.get("stream"):
        conversation.send(STREAM_HEAD + chunked(sse([
            chunk(role="assistant"), chunk(**message), chunk(reason=reason), counts()])))
        return
    conversation.send(json_answer(json.dumps({
        "id": "c", "object": "chat.completion", "created": 1, "model": SCRIPTED, "usage": {
            "prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
        "choices": [{"index": 0, "finish_reason": reason, "message": {"role": "assistant", **message}}]}).encode()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["whole", "streamed"])
def test_langchain_calls_a_tool_and_has_its_result_read(calling, kind, how):
    """Two rounds, as an agent goes: the second sends the first back, with what the tool returned."""
    tools, messages = pytest.importorskip("langchain_core.tools"), pytest.importorskip("langchain_core.messages")

    @tools.tool
    def light(on: bool) -> str:
        """Turn the light on or off."""
        return f"done {on}"

    model = langchain(kind, url_of(calling), SCRIPTED).bind_tools([light])
    ask = model.invoke if how == "whole" else lambda turns: summed(model.stream(turns))
    turns = [messages.HumanMessage("Turn the light on.")]
    first = ask(turns)
    called, = first.tool_calls
    assert (called["name"], called["args"]) == ("light", {"on": True})
    second = ask([*turns, first, light.invoke(called)])
    assert second.text == "it said done True" and second.tool_calls == []
    sent = json.loads(calling.child.received[-1].body)["messages"]
    assert sent[-1]["tool_call_id"] == sent[-2]["tool_calls"][0]["id"]


def test_langchain_tells_thoughts_apart(calling):
    module, messages = pytest.importorskip("langchain_ollama"), pytest.importorskip("langchain_core.messages")
    model = module.ChatOllama(model=SCRIPTED, base_url=url_of(calling), reasoning=True)
    turns = [messages.AIMessage("", tool_calls=[{"name": "light", "args": {}, "id": "a"}]),
             messages.ToolMessage("on", tool_call_id="a")]
    for answer in (model.invoke(turns), summed(model.stream(turns))):
        assert (answer.text, answer.additional_kwargs["reasoning_content"]) == ("it said on", "Read it.")


@pytest.fixture
def llm(tmp_path):
    """`llm(url, words...)` runs that program, with the plugin for Ollama at this place; it gives what was printed."""
    program = shutil.which("llm", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
    if program is None:
        pytest.skip("there is no llm")

    def run(url, *words):
        done = subprocess.run([program, *words], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL,
                              env={**os.environ, "OLLAMA_HOST": url, "LLM_USER_PATH": str(tmp_path)})
        assert done.returncode == 0, done.stderr
        return done.stdout
    return run


def listed(printed):
    """The model of Ollama's that a listing of `llm` has."""
    name, = (line.split()[1] for line in printed.splitlines() if line.startswith("Ollama: "))
    return name


@pytest.mark.timeout(400)  # seven programs one after the other, each with much to import
@pytest.mark.parametrize("more", [[], ["--no-stream"]])
def test_llm_chats_calls_tools_and_embeds(daemon, calling, llm, more):
    options = ["-o", "num_predict", "12", "-o", "temperature", "0", *more]
    assert llm(daemon.url, "-m", listed(llm(daemon.url, "models")), *options, "hi").strip()
    vector = llm(daemon.url, "embed", "-m", listed(llm(daemon.url, "embed-models")), "-c", "one")
    assert len(json.loads(vector)) == 64
    told = llm(url_of(calling), "-m", listed(llm(url_of(calling), "models")), "-T", "llm_version", *more, "Which?")
    assert told.strip() == f"it said {llm(daemon.url, '--version').split()[-1]}"


def litellm_asks(kind, url, model, **more):
    litellm = pytest.importorskip("litellm")
    asked = {"temperature": 0, "max_tokens": 24, "messages": [{"role": "user", "content": ASKED}], **more}
    return litellm.completion(model=f"{kind}/{model}", api_base=f"{url}/v1" if kind == "openai" else url,
                              api_key="none", **asked)


@pytest.mark.parametrize("kind", ["openai", "ollama_chat", "ollama", "anthropic"])
def test_litellm_chats_and_streams(daemon, kind):
    whole = litellm_asks(kind, daemon.url, MODEL)
    pieces = [piece.choices[0].delta.content or "" for piece in litellm_asks(kind, daemon.url, MODEL, stream=True)]
    assert same(whole.choices[0].message.content or "", "".join(pieces)) and whole.usage.prompt_tokens > 0


@pytest.mark.parametrize("kind", ["openai", "ollama_chat", "anthropic"])
@pytest.mark.parametrize("how", ["whole", "streamed"])
def test_litellm_calls_a_tool_and_has_its_result_read(calling, kind, how):
    litellm = pytest.importorskip("litellm")
    parameters = {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]}
    tools = [{"type": "function", "function": {"name": "light", "description": "x", "parameters": parameters}}]
    turns = [{"role": "user", "content": "Turn the light on."}]

    def ask():
        answer = litellm_asks(kind, url_of(calling), SCRIPTED, tools=tools, messages=turns, stream=how == "streamed")
        if how == "streamed":
            answer = litellm.stream_chunk_builder(list(answer), messages=turns)
        return answer.choices[0].message
    first = ask()
    called, = first.tool_calls
    assert (called.function.name, json.loads(called.function.arguments)) == ("light", {"on": True})
    turns += [first.model_dump(), {"role": "tool", "tool_call_id": called.id, "name": "light", "content": "done"}]
    assert ask().content == "it said done"


@pytest.mark.parametrize("kind", ["openai", "ollama_chat", "anthropic"])
def test_litellm_knows_that_a_model_is_not_there(daemon, kind):
    litellm = pytest.importorskip("litellm")
    with pytest.raises(litellm.NotFoundError, match="not found"):  # of Ollama's errors it reads the words
        litellm_asks(kind, daemon.url, "nobody")


@pytest.mark.parametrize("kind", ["openai", "ollama"])
def test_litellm_embeds(daemon, kind):
    litellm = pytest.importorskip("litellm")
    base = f"{daemon.url}/v1" if kind == "openai" else daemon.url
    told = litellm.embedding(model=f"{kind}/{WORDS}", api_base=base, api_key="none", input=["one", "two"])
    assert [len(row["embedding"]) for row in told.data] == [64, 64]
