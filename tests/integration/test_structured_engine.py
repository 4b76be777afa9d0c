"""Structured output with the real engine: forms are kept, thoughts or not; tools are forced and confined."""

import json
import urllib.error
import urllib.request

import pytest

from tests.support.shell import Shell
from tests.support.tiny_gguf import tiny_gguf

SCHEMA = {"type": "object", "properties": {"mood": {"enum": ["calm", "loud"]}, "n": {"type": "boolean"}},
          "required": ["mood", "n"], "additionalProperties": False}
THINKS = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% if m.reasoning_content %}<think>\n{{ m.reasoning_content }}"
    "\n</think>\n\n{% endif %}{{ m['content'] }}<|im_end|>\n{% endfor %}{% if add_generation_prompt %}"
    "<|im_start|>assistant\n{% if enable_thinking is defined and enable_thinking is false %}<think>\n\n</think>\n\n"
    "{% else %}<think>\n{% endif %}{% endif %}")
"""A template that begins each answer with a thought, unless it is told not to."""
PLAIN, THINKER = "solo:f32", "thinker:f32"
RECEIPT = "x-blazar-structured-output"
MESSAGES = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def daemon(tmp_path_factory):
    shell = Shell(tmp_path_factory.mktemp("home"))
    shell.ok("pull", str(tiny_gguf(shell.home / "1.gguf")), "--name", PLAIN)
    shell.ok("pull", str(tiny_gguf(shell.home / "2.gguf", seed=1, template=THINKS)), "--name", THINKER)
    with shell.config.open("a") as config:
        config.write('decode_policy = "strict"\nreasoning_budget = 24\nraw_lane_max_tokens = 8\n'
                     "sentinel_enforce = true\n")
    shell.start()
    yield shell
    shell.stop()


def ask(daemon, path, **body):
    """Status, headers and value of an answer that is not streamed.

    The thoughts of a random model are noise, in which llama-server's parser now and then meets what it cannot read: it
    says 500 then, and is asked again.
    """
    for _ in range(5):
        status, headers, value = ask_once(daemon, path, body)
        if status < 500:
            break
    return status, headers, value


def ask_once(daemon, path, body):
    request = urllib.request.Request(daemon.url + path, json.dumps({"stream": False, **body}).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, error.headers, json.load(error)


@pytest.mark.parametrize("model", [PLAIN, THINKER])
def test_a_schema_is_kept_whatever_the_model_thinks(daemon, model):
    status, headers, value = ask(daemon, "/api/chat", model=model, messages=MESSAGES, format=SCHEMA)
    assert (status, headers[RECEIPT]) == (200, "json_schema"), value
    assert set(json.loads(value["message"]["content"])) == {"mood", "n"}
    assert bool(value["message"].get("thinking")) == (model == THINKER)
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
    status, headers, value = ask(daemon, "/v1/chat/completions", model=model, messages=MESSAGES, response_format=form)
    assert status == 200, value
    message = value["choices"][0]["message"]
    assert json.loads(message["content"])["mood"] in ("calm", "loud")
    assert bool(message.get("reasoning_content")) == (model == THINKER)


def test_thoughts_that_are_wanted_in_the_text_stay_out_of_its_form(daemon):
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
    status, headers, value = ask(daemon, "/v1/chat/completions", model=THINKER, messages=MESSAGES, response_format=form,
                                 reasoning_format="none")
    assert (status, headers[RECEIPT]) == (200, "json_schema"), value
    assert set(json.loads(value["choices"][0]["message"]["content"])) == {"mood", "n"}


@pytest.mark.parametrize("how", [{}, {"reasoning_format": "none"}, {"chat_template_kwargs": {"enable_thinking": True}}])
def test_a_grammar_of_the_clients_own_holds_the_text_and_not_the_thoughts(daemon, how):
    status, headers, value = ask(daemon, "/v1/chat/completions", model=THINKER, messages=MESSAGES,
                                 grammar='root ::= "yes"', **how)
    assert (status, headers[RECEIPT]) == (200, "gbnf"), value
    assert value["choices"][0]["message"] == {"role": "assistant", "content": "yes"}


@pytest.mark.parametrize("model", [PLAIN, THINKER])
def test_a_tool_is_forced_although_the_template_knows_none(daemon, model):
    tool = {"name": "set_mood", "input_schema": SCHEMA}
    status, headers, value = ask(daemon, "/v1/messages", model=model, messages=MESSAGES, max_tokens=200, tools=[tool],
                                 tool_choice={"type": "tool", "name": "set_mood"})
    assert (status, headers[RECEIPT]) == (200, "json_schema"), value
    [block] = [block for block in value["content"] if block["type"] != "thinking"]
    assert (block["name"], set(block["input"]), value["stop_reason"]) == ("set_mood", {"mood", "n"}, "tool_use")
    tool = {"type": "function", "function": {"name": "set_mood", "parameters": SCHEMA}}
    status, headers, value = ask(daemon, "/v1/chat/completions", model=model, messages=MESSAGES, tools=[tool],
                                 tool_choice={"type": "function", "function": {"name": "set_mood"}})
    [call] = value["choices"][0]["message"]["tool_calls"]
    assert call["function"]["name"] == "set_mood" and set(json.loads(call["function"]["arguments"])) == {"mood", "n"}


@pytest.mark.parametrize("stream", [False, True])
def test_strict_calls_are_confined(daemon, stream):
    tools = [{"type": "function", "function": {"name": name, "parameters": SCHEMA}} for name in ("set mood", "zwölf")]
    body = {"model": THINKER, "messages": MESSAGES, "tools": tools, "stream": stream, "options": {"num_predict": 900}}
    request = urllib.request.Request(f"{daemon.url}/api/chat", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=100) as answer:
        lines = [json.loads(line) for line in answer.read().splitlines()]
        assert answer.headers[RECEIPT] == "gbnf"
    calls = [call["function"] for line in lines for call in line["message"].get("tool_calls", ())]
    words = "".join(line["message"]["content"] for line in lines)
    if lines[-1]["done_reason"] == "stop":
        assert calls and words.strip() == ""
    assert {call["name"] for call in calls} <= {"set mood", "zwölf"}
    assert all(isinstance(call["arguments"], dict) for call in calls)


def test_raw_completions_end(daemon):
    for options, expected in (({}, 8), ({"num_predict": 5}, 5), ({"num_predict": 99}, 8), ({"num_predict": -1}, 8)):
        _, _, value = ask(daemon, "/api/generate", model=PLAIN, prompt="a", raw=True, options={**options, "seed": 1})
        assert value["eval_count"] <= expected and value["done_reason"] in ("length", "stop")


@pytest.mark.parametrize(("schema", "words"), [
    ({"type": "integer", "minimum": 5, "maximum": 1}, "contradict"),
    ({"type": "array", "items": {"type": "null"}, "minItems": 1_000_000}, "repetition is too long"),
    ({"type": "string", "pattern": "^(a$"}, "pattern"),
])
def test_what_the_engine_cannot_do_is_explained(daemon, schema, words):
    for path, more in (("/api/chat", {"format": schema}), ("/v1/chat/completions", {"response_format": {
            "type": "json_schema", "json_schema": {"name": "x", "schema": schema}}})):
        status, headers, value = ask(daemon, path, model=PLAIN, messages=MESSAGES, **more)
        assert status == 400 and words in json.dumps(value) and RECEIPT not in headers


def test_what_the_engine_passes_over_the_sentinel_does_not(daemon):
    status, _, value = ask(daemon, "/api/chat", model=PLAIN, messages=MESSAGES,
                           format={"type": "boolean", "not": {"type": "boolean"}})
    assert status == 422 and "structure" in value["error"]
