"""What was given with a model is added to requests that do not say otherwise, in each dialect, and to no others."""

import json

import pytest

from blazar.proxy.dialects.anthropic import AnthropicDialect
from blazar.proxy.dialects.ollama import OllamaDialect
from blazar.proxy.dialects.openai import OpenAIDialect
from blazar.proxy.json_scan import BodyReader
from blazar.proxy.preset import Preset, complete

USER = {"role": "user", "content": "hi"}
TURNS = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
DEFAULTS = {"system": "S", "messages": TURNS,
            "parameters": {"temperature": 0.5, "top_k": 7, "num_predict": 9, "stop": ["x"], "repeat_penalty": 1.5}}
SYSTEM = {"role": "system", "content": "S"}


def added(dialect, operation, body, defaults=DEFAULTS):
    exchange = dialect.parse(operation, json.dumps(body).encode(), {}, "id")
    Preset(BodyReader()).add(exchange, defaults)
    return exchange, json.loads(exchange.upstream_body)


def test_openai_gets_a_new_body():
    exchange, asked = added(OpenAIDialect(), "chat", {"model": "m", "messages": [USER], "top_k": 1, "unknown": [1]})
    assert asked == {"model": "m", "messages": [SYSTEM, *TURNS, USER], "top_k": 1, "unknown": [1], "temperature": 0.5,
                     "max_tokens": 9, "stop": ["x"], "repeat_penalty": 1.5}
    assert exchange.payload["max_tokens"] == 9


def test_a_large_openai_body_is_read_whole():
    body = {"model": "m", "messages": [{"role": "user", "content": "x" * 300_000}]}
    exchange = OpenAIDialect(BodyReader(1000)).parse("chat", json.dumps(body).encode(), {}, "id")
    assert "messages" not in exchange.payload
    Preset(BodyReader(1000)).add(exchange, DEFAULTS)
    assert json.loads(exchange.upstream_body)["messages"] == [SYSTEM, *TURNS, *body["messages"]]


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens", "n_predict"])
def test_every_name_of_the_limit_counts(limit):
    _, asked = added(OpenAIDialect(), "chat", {"model": "m", "messages": [USER], limit: 3, "stop": [],
                                               "temperature": None})
    assert {name: asked.get(name) for name in ("max_tokens", "max_completion_tokens", "n_predict") if name in asked} \
        == {limit: 3}
    assert asked["stop"] == [] and asked["temperature"] == 0.5, "null is as if left out"


def test_completions_have_no_turns():
    _, asked = added(OpenAIDialect(), "completions", {"model": "m", "prompt": "p"})
    assert asked["prompt"] == "p" and asked["top_k"] == 7 and "messages" not in asked


def test_ollama_chat_generate_and_raw():
    exchange, asked = added(OllamaDialect(), "chat", {"model": "m", "messages": [USER], "options": {"top_k": 1}})
    assert asked["messages"] == [SYSTEM, *TURNS, USER] and (asked["top_k"], asked["temperature"]) == (1, 0.5)
    assert exchange.stops == ("x",)
    exchange, _ = added(OllamaDialect(), "chat", {"model": "m", "messages": [USER], "options": {"stop": ["y"]}})
    assert exchange.stops == ("y",)
    _, asked = added(OllamaDialect(), "generate", {"model": "m", "prompt": "hi", "system": "own"})
    assert asked["messages"] == [{"role": "system", "content": "own"}, *TURNS, USER]
    _, asked = added(OllamaDialect(), "generate", {"model": "m", "prompt": "hi", "raw": True})
    assert asked["prompt"] == "hi" and asked["top_k"] == 7 and "messages" not in asked


def test_anthropic():
    body = {"model": "m", "max_tokens": 5, "messages": [USER]}
    exchange, asked = added(AnthropicDialect(), "messages", body)
    assert asked["messages"] == [SYSTEM, *TURNS, USER] and asked["max_tokens"] == 5 and exchange.stops == ("x",)
    _, asked = added(AnthropicDialect(), "messages", {**body, "system": "own", "stop_sequences": ["z"]})
    assert asked["messages"][0] == {"role": "system", "content": "own"} and asked["stop"] == ["z"]


@pytest.mark.parametrize("body", [{"model": "m"}, {"model": "m", "messages": []}])
def test_what_only_loads_stays_empty(body):
    exchange = OllamaDialect().parse("chat", json.dumps(body).encode(), {}, "id")
    Preset(BodyReader()).add(exchange, DEFAULTS)
    assert exchange.upstream_body == b""


@pytest.mark.parametrize("turns", [[7], ["x", None], [{"role": 7}]])
def test_turns_that_the_engine_will_refuse_do_no_harm(turns):
    asked = {"messages": turns}
    complete(asked, DEFAULTS)
    assert asked["messages"][-len(turns):] == turns


def test_a_system_turn_further_down_counts_too():
    asked = {"messages": [USER, {"role": "developer", "content": "d"}]}
    complete(asked, {"system": "S"})
    assert asked["messages"] == [USER, {"role": "developer", "content": "d"}]
