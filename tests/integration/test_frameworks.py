"""Frameworks that are clients of several dialects: LangChain, `llm` and LiteLLM. They chat, stream and call tools.

Too large for every run: `pytest -m frameworks tests/integration/test_frameworks.py` where they are installed.
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
from tests.support.scripted_child import STREAM_HEAD, chunked, json_answer
from tests.support.shell import Shell
from tests.support.tiny_gguf import tiny_gguf
from tests.support.wire import call, chunk, counts, sse

pytestmark = pytest.mark.frameworks

MODEL = "solo:f32"
@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    shell = Shell(tmp_path_factory.mktemp("frameworks"))
    shell.ok("pull", str(tiny_gguf(shell.home / "solo.gguf")), "--name", MODEL)
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


@pytest.mark.parametrize("kind", ["openai", "ollama", "anthropic"])
def test_langchain_chats_and_streams_the_same(daemon, kind):
    model = langchain(kind, daemon.url)
    whole = model.invoke("Write about a quiet library.")
    streamed = None
    for piece in model.stream("Write about a quiet library."):
        streamed = piece if streamed is None else streamed + piece
    assert same(whole.text, streamed.text)
    assert whole.usage_metadata["input_tokens"] == streamed.usage_metadata["input_tokens"] > 0


@pytest.fixture(scope="module")
def calling(tmp_path_factory):
    """A gateway whose engine answers everything with a call of the tool `light`: noise calls none on its own."""
    with GatewayUnderTest(tmp_path_factory.mktemp("calling"), installed=(MODEL, SCRIPTED)) as gateway:
        gateway.supervisor.facts[SCRIPTED] = {"capabilities": ["completion", "tools"]}
        gateway.supervisor.push()
        gateway.child.play = call_light
        yield f"http://127.0.0.1:{gateway.supervisor.port}"


def call_light(conversation):
    asked = json.loads(conversation.request.body)
    assert asked["tools"][0]["function"]["name"] == "light", asked
    called = call(0, '{"on": true}', "call_1", "light")
    if asked.get("stream"):
        conversation.send(STREAM_HEAD + chunked(sse([
            chunk(role="assistant"), chunk(tool_calls=[called]), chunk(reason="tool_calls"), counts()])))
    else:
        message = {"role": "assistant", "content": None, "tool_calls": [{**called, "type": "function"}]}
        conversation.send(json_answer(json.dumps({
            "id": "c", "object": "chat.completion", "created": 1, "model": SCRIPTED, "usage": {
                "prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
            "choices": [{"index": 0, "finish_reason": "tool_calls", "message": message}]}).encode()))


@pytest.mark.parametrize("kind", ["openai", "ollama", "anthropic"])
def test_langchain_calls_a_tool(calling, kind):
    tools = pytest.importorskip("langchain_core.tools")

    @tools.tool
    def light(on: bool) -> str:
        """Turn the light on or off."""
        return "done"

    model = langchain(kind, calling, SCRIPTED).bind_tools([light])
    whole, = model.invoke("Turn the light on.").tool_calls
    assert (whole["name"], whole["args"]) == ("light", {"on": True})
    pieces = list(model.stream("Turn the light on."))
    streamed, = functools.reduce(lambda sum, piece: sum + piece, pieces).tool_calls
    assert (streamed["name"], streamed["args"]) == ("light", {"on": True})


def test_llm_chats_with_its_ollama_plugin(daemon):
    program = shutil.which("llm", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ["PATH"]]))
    if program is None:
        pytest.skip("there is no llm")
    environment = {**os.environ, "OLLAMA_HOST": daemon.url, "LLM_USER_PATH": str(daemon.home / "llm")}

    def llm(*words):
        return subprocess.run([program, *words], env=environment, capture_output=True, text=True, timeout=120)

    name = next(line.split()[1] for line in llm("models").stdout.splitlines() if line.startswith("Ollama: "))
    for more in ([], ["--no-stream"]):
        asked = llm("-m", name, "-o", "num_predict", "12", "-o", "temperature", "0", *more, "hi")
        assert asked.returncode == 0, asked.stderr


@pytest.mark.parametrize("kind", ["openai", "ollama_chat", "anthropic"])
def test_litellm_chats_and_streams(daemon, kind):
    litellm = pytest.importorskip("litellm")
    base = {"openai": f"{daemon.url}/v1"}.get(kind, daemon.url)
    asked = {"model": f"{kind}/{MODEL}", "api_base": base, "api_key": "none", "temperature": 0, "max_tokens": 24,
             "messages": [{"role": "user", "content": "Write about a quiet library."}]}
    whole = litellm.completion(**asked).choices[0].message.content
    streamed = "".join(piece.choices[0].delta.content or "" for piece in litellm.completion(**asked, stream=True))
    assert same(whole or "", streamed)


@pytest.mark.parametrize("kind", ["openai", "ollama_chat", "anthropic"])
def test_litellm_calls_a_tool(calling, kind):
    litellm = pytest.importorskip("litellm")
    parameters = {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]}
    light = {"type": "function", "function": {"name": "light", "description": "x", "parameters": parameters}}
    base = {"openai": f"{calling}/v1"}.get(kind, calling)
    answer = litellm.completion(model=f"{kind}/{SCRIPTED}", api_base=base, api_key="none", tools=[light], max_tokens=24,
                                messages=[{"role": "user", "content": "Turn the light on."}])
    called, = answer.choices[0].message.tool_calls
    assert (called.function.name, json.loads(called.function.arguments)) == ("light", {"on": True})
