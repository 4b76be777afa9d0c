"""count_tokens says what the same conversation then costs (FC-18), on real engines."""

import json
import urllib.error
import urllib.request
from itertools import product

import pytest

from tests.support.shell import Shell
from tests.support.tiny_gguf import tiny_gguf

anthropic = pytest.importorskip("anthropic")
TINY, DEMO = "counted:f32", "smollm2-135m:q4_1"

TEMPLATE = """\
{% if tools %}<|im_start|>system
Tools: {% for tool in tools %}{{ tool | tojson }}
{% endfor %}Call one as <tool_call>{"name": ..., "arguments": ...}</tool_call><|im_end|>
{% endif %}{% for message in messages %}<|im_start|>{{ message['role'] }}
{{ message['content'] or '' }}{% for call in message.get('tool_calls') or [] %}
<tool_call>{"name": "{{ call['function']['name'] }}", "arguments": {{ call['function']['arguments'] | tojson }}}\
</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""

SYSTEMS = {"no system": None, "string": "You are terse. " * 140,
           "list": [{"type": "text", "text": "You are terse."}, {"type": "text", "text": "Always.",
                                                                 "cache_control": {"type": "ephemeral"}}]}
WEATHER = {"name": "weather", "description": "The weather of a city.",
           "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}
CLOCK = {"name": "clock", "input_schema": {"type": "object", "properties": {}}}
CALL = {"type": "tool_use", "id": "t1", "name": "weather", "input": {"city": "Paris"}}

HISTORIES = {
    "hi": ([{"role": "user", "content": "hi"}], []),
    "turns": ([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello!"},
               {"role": "user", "content": [{"type": "text", "text": "Tell me"}, {"type": "text", "text": "more."}]}],
              []),
    "signs": ([{"role": "user", "content": "<|im_end|> <s> naïve 日本 \n\n\t{}"}], []),
    "long": ([{"role": "user", "content": "word " * 200}], []),
    "one tool": ([{"role": "user", "content": "The weather?"}], [WEATHER]),
    "two tools": ([{"role": "user", "content": "The time?"}], [WEATHER, CLOCK]),
    "results": ([{"role": "user", "content": "The weather in Paris?"}, {"role": "assistant", "content": [CALL]},
                 {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "15 degrees"},
                                              {"type": "text", "text": "And now?"}]}], [WEATHER, CLOCK]),
}
CONVERSATIONS = {f"{system}, {history}": (system, history) for system, history in product(SYSTEMS, HISTORIES)}


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    shell = Shell(tmp_path_factory.mktemp("home"))
    file = tiny_gguf(shell.home / "tiny.gguf", ctx=8192, template=TEMPLATE)
    shell.ok("pull", str(file), "--name", TINY)
    shell.start()
    yield shell
    shell.stop()


@pytest.fixture
def client(daemon):
    with anthropic.Anthropic(base_url=daemon.url, api_key="none", max_retries=0, timeout=100) as client:
        yield client


def body(model, system, history):
    messages, tools = HISTORIES[history]
    extra = {"system": SYSTEMS[system]} if SYSTEMS[system] else {}
    return {"model": model, "messages": messages, **extra, **({"tools": tools} if tools else {})}


def test_there_are_twenty():
    assert len(CONVERSATIONS) >= 20


@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_the_count_is_what_the_call_costs(client, conversation):
    assert_counted_right(client, body(TINY, *CONVERSATIONS[conversation]))


@pytest.mark.real
@pytest.mark.parametrize("conversation", ["no system, hi", "list, turns", "list, signs", "no system, results"])
def test_also_for_a_real_model(daemon, client, conversation):
    pulled = daemon("pull", DEMO)
    if pulled.returncode != 0:
        pytest.skip(pulled.stderr)
    assert_counted_right(client, body(DEMO, *CONVERSATIONS[conversation]))


def assert_counted_right(client, asked):
    counted = client.messages.count_tokens(**asked).input_tokens
    usage = client.messages.create(max_tokens=1, **asked).usage
    assert counted == usage.input_tokens + usage.cache_read_input_tokens > 0


def test_each_addition_counts(client):
    def count(system, history):
        return client.messages.count_tokens(**body(TINY, system, history)).input_tokens
    assert count("no system", "hi") < count("list", "hi") < count("string", "hi")
    assert count("no system", "hi") < count("no system", "one tool") < count("no system", "two tools")
    assert count("no system", "two tools") < count("no system", "results")


def test_beta_and_an_unknown_model(daemon):
    def post(model):
        request = urllib.request.Request(f"{daemon.url}/v1/messages/count_tokens?beta=true",
                                         json.dumps(body(model, "no system", "hi")).encode())
        return urllib.request.urlopen(request, timeout=60)
    assert set(json.loads(post(TINY).read())) == {"input_tokens"}
    with pytest.raises(urllib.error.HTTPError) as caught:
        post("nobody")
    told = json.loads(caught.value.read())
    assert caught.value.code == 404 and (told["type"], told["error"]["type"]) == ("error", "not_found_error")
