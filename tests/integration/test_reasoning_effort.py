"""How hard a model is to think, said for one request: what the real engine's chat template makes of it."""

import pytest

from tests.support.shell import Shell
from tests.support.tiny_gguf import CHAT_TEMPLATE, tiny_gguf

openai = pytest.importorskip("openai")

MODEL = "thinker:f32"
QUIET = "{% if not enable_thinking %}" + "!" * 20 + "{% endif %}"
TEMPLATE = "{{ reasoning_effort | default('') }}" + CHAT_TEMPLATE + QUIET
SETTINGS = "chat_template_kwargs = '{\"enable_thinking\": true}'\n"


@pytest.fixture(scope="module")
def sdk(tmp_path_factory):
    shell = Shell(tmp_path_factory.mktemp("effort"))
    shell.ok("pull", str(tiny_gguf(shell.home / "thinker.gguf", template=TEMPLATE)), "--name", MODEL)
    shell.config.write_text(shell.config.read_text() + SETTINGS)
    shell.start()
    with openai.OpenAI(base_url=f"{shell.url}/v1", api_key="none", max_retries=0, timeout=60) as client:
        yield client
    shell.stop()


def chat(sdk, **fields):
    """Tokens of the prompt: the vocabulary has one for each letter, and one for "in"."""
    asked = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    return sdk.chat.completions.create(**asked, **fields).usage.prompt_tokens


def respond(sdk, effort):
    asked = {"model": MODEL, "input": "hi", "max_output_tokens": 1}
    return sdk.responses.create(**asked, reasoning={"effort": effort}).usage.input_tokens


@pytest.mark.parametrize("effort", ["minimal", "low", "medium", "high", "xhigh", "max"])
def test_the_template_reads_the_effort(sdk, effort):
    asked = chat(sdk, reasoning_effort=effort)
    assert asked - chat(sdk) == len(effort.replace("in", "i"))
    assert asked == respond(sdk, effort) == chat(sdk, extra_body={"chat_template_kwargs": {"reasoning_effort": effort}})


def test_none_turns_thinking_off(sdk):
    assert chat(sdk, reasoning_effort="none") - chat(sdk) == 20
    assert respond(sdk, "none") == chat(sdk, reasoning_effort="none")
    assert chat(sdk, extra_body={"chat_template_kwargs": {"enable_thinking": False}}) - chat(sdk) == 20


def test_null_leaves_it_to_the_settings(sdk):
    assert chat(sdk, reasoning_effort=None) == chat(sdk) == respond(sdk, None)
