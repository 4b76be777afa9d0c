"""Frameworks that are clients of several dialects: LangChain, `llm` and LiteLLM. They chat, stream and call tools.

Too large for every run: `pytest -m frameworks tests/integration/test_frameworks.py` where they are installed.
"""

import os
import shutil
import subprocess
import sys

import pytest

from tests.support.shell import Shell
from tests.support.tiny_gguf import tiny_gguf

pytestmark = pytest.mark.frameworks

MODEL = "solo:f32"
TOOLS_TEMPLATE = (
    "{% if tools %}<|im_start|>system\n{{ tools | tojson }}<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "{% for call in message.tool_calls or [] %}<tool_call>{{ call | tojson }}</tool_call>{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    shell = Shell(tmp_path_factory.mktemp("frameworks"))
    shell.ok("pull", str(tiny_gguf(shell.home / "solo.gguf", template=TOOLS_TEMPLATE)), "--name", MODEL)
    shell.start()
    yield shell
    shell.stop()


def langchain(kind, url):
    """A chat model of LangChain that asks in this dialect."""
    module = pytest.importorskip(f"langchain_{kind}")
    if kind == "openai":
        return module.ChatOpenAI(model=MODEL, base_url=f"{url}/v1", api_key="none", max_tokens=24, temperature=0)
    if kind == "ollama":
        return module.ChatOllama(model=MODEL, base_url=url, num_predict=24, temperature=0)
    return module.ChatAnthropic(model=MODEL, base_url=url, api_key="none", max_tokens=24, temperature=0)


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


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
def test_langchain_calls_a_tool(daemon, kind):
    tools = pytest.importorskip("langchain_core.tools")

    @tools.tool
    def light(on: bool) -> str:
        """Turn the light on or off."""
        return "done"

    model = langchain(kind, daemon.url).bind_tools([light], tool_choice="any").bind(max_tokens=400)
    call, = model.invoke("Turn the light on.").tool_calls
    assert call["name"] == "light" and isinstance(call["args"]["on"], bool)


def test_langchain_tells_ollama_of_tools(daemon):
    """Ollama's API cannot force a call, and a tiny model does not choose one: the request itself has to be taken."""
    tools = pytest.importorskip("langchain_core.tools")

    @tools.tool
    def light(on: bool) -> str:
        """Turn the light on or off."""
        return "done"

    assert langchain("ollama", daemon.url).bind_tools([light]).invoke("Turn the light on.").usage_metadata is not None


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
    tool = llm("-m", name, "-o", "num_predict", "12", "--functions", "def light(on: bool) -> str:\n    return 'done'",
               "hi")
    assert tool.returncode == 0, tool.stderr


@pytest.mark.parametrize("kind", ["openai", "ollama_chat", "anthropic"])
def test_litellm_chats_streams_and_calls_a_tool(daemon, kind):
    litellm = pytest.importorskip("litellm")
    base = {"openai": f"{daemon.url}/v1"}.get(kind, daemon.url)
    asked = {"model": f"{kind}/{MODEL}", "api_base": base, "api_key": "none", "temperature": 0, "max_tokens": 24,
             "messages": [{"role": "user", "content": "Write about a quiet library."}]}
    whole = litellm.completion(**asked).choices[0].message.content
    streamed = "".join(piece.choices[0].delta.content or "" for piece in litellm.completion(**asked, stream=True))
    assert same(whole or "", streamed)
    if kind != "ollama_chat":
        parameters = {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]}
        parameters = {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"]}
        light = {"type": "function", "function": {"name": "light", "description": "x", "parameters": parameters}}
        answer = litellm.completion(**{**asked, "max_tokens": 400}, tools=[light], tool_choice="required")
        assert answer.choices[0].message.tool_calls[0].function.name == "light"
