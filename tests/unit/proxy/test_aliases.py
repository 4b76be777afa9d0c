"""What an alias of the configuration makes of requests, in each dialect."""

import json

import pytest

from blazar.proxy.aliases import aliases_of
from blazar.proxy.dialects.anthropic import AnthropicDialect
from blazar.proxy.dialects.ollama import OllamaDialect
from blazar.proxy.dialects.openai import OpenAIDialect
from blazar.proxy.json_scan import BodyReader
from blazar.proxy.meter import expected_tokens
from blazar.proxy.preset import Preset

USER = {"role": "user", "content": "hi"}
SYSTEM = {"role": "system", "content": "S"}
OWN = {"role": "system", "content": "own"}
SET = {"system": "S", "temperature": 0.5, "max_tokens": 9, "stop": ("x",),
       "chat_template_kwargs": {"enable_thinking": False, "tone": "dry"}}


def shaped(dialect, operation, body, defaults=None, sampler=None, strip=(), **fields):
    alias = aliases_of([{"name": "Fast", "model": "m", "set": fields, "strip": strip}])["fast"]
    exchange = dialect.parse(operation, json.dumps(body).encode(), {}, "id")
    Preset(BodyReader()).add(exchange, defaults or {}, sampler or {}, alias)
    return exchange, json.loads(exchange.upstream_body)


def test_openai_gets_what_it_leaves_open():
    exchange, asked = shaped(OpenAIDialect(), "chat", {
        "model": "fast", "messages": [USER], "max_completion_tokens": 3, "temperature": None,
        "chat_template_kwargs": {"tone": "warm"}}, **SET)
    assert asked == {"model": "fast", "messages": [SYSTEM, USER], "max_completion_tokens": 3, "temperature": 0.5,
                     "stop": ["x"], "chat_template_kwargs": {"enable_thinking": False, "tone": "warm"}}
    assert exchange.payload == asked


def test_ollama_and_anthropic_too():
    exchange, asked = shaped(OllamaDialect(), "chat", {"model": "fast", "messages": [USER], "think": True,
                                                       "options": {"temperature": 1}}, **SET)
    assert asked["messages"] == [SYSTEM, USER] and (asked["temperature"], asked["max_tokens"]) == (1, 9)
    assert asked["chat_template_kwargs"] == {"enable_thinking": True, "tone": "dry"}
    assert exchange.stops == ("x",)
    exchange, asked = shaped(AnthropicDialect(), "messages", {"model": "fast", "messages": [USER], "max_tokens": 3,
                                                              "system": "own"}, **SET)
    assert asked["messages"] == [OWN, USER] and (asked["max_tokens"], asked["temperature"]) == (3, 0.5)
    exchange, asked = shaped(AnthropicDialect(), "count_tokens", {"model": "fast", "messages": [USER]}, **SET)
    assert asked["messages"] == [SYSTEM, USER]


@pytest.mark.parametrize("dialect", [OpenAIDialect(), OllamaDialect()])
@pytest.mark.parametrize(("strip", "own", "limit"), [((), {}, 900), ((), {"max_tokens": 5}, 5),
                                                     (("max_tokens",), {"max_tokens": 5}, 900)])
def test_its_limit_is_what_an_api_key_has_to_have_left(dialect, strip, own, limit):
    body = own if dialect.relays or not own else {"options": {"num_predict": own["max_tokens"]}}
    exchange, _ = shaped(dialect, "chat", {"model": "fast", "messages": [USER], **body}, strip=strip, max_tokens=900)
    assert expected_tokens(exchange) == len(exchange.body) // 4 + limit


def test_a_completion_has_neither_turns_nor_template():
    _, asked = shaped(OpenAIDialect(), "completions", {"model": "fast", "prompt": "p"}, **SET)
    assert asked == {"model": "fast", "prompt": "p", "temperature": 0.5, "max_tokens": 9, "stop": ["x"]}


def test_what_is_stripped_is_gone_and_what_is_set_as_well_holds_always():
    body = {"model": "fast", "messages": [OWN, USER, {"role": "developer", "content": "d"}], "seed": 1,
            "max_tokens": 100, "temperature": 2, "kept": 1}
    _, asked = shaped(OpenAIDialect(), "chat", body, strip=["seed", "n_predict", "temperature", "system", "absent"],
                      system="S", temperature=0.5)
    assert asked == {"model": "fast", "messages": [SYSTEM, USER], "temperature": 0.5, "kept": 1}


def test_tools_go_with_all_that_belongs_to_them():
    tool = {"name": "f", "input_schema": {"type": "object"}}
    exchange, asked = shaped(AnthropicDialect(), "messages", {
        "model": "fast", "messages": [USER], "max_tokens": 3, "tools": [tool],
        "tool_choice": {"type": "tool", "name": "f"}}, strip=["tools"])
    assert "tools" not in exchange.payload and "tool_choice" not in exchange.payload
    assert {"tools", "tool_choice", "parallel_tool_calls"}.isdisjoint(asked)


def test_the_alias_counts_more_than_the_model_and_the_configuration():
    _, asked = shaped(OpenAIDialect(), "chat", {"model": "fast", "messages": [USER]}, {
        "system": "of the model", "messages": [{"role": "user", "content": "a"}],
        "parameters": {"temperature": 1.5, "top_k": 7}}, {"temperature": 1.9, "min_p": 0.1}, system="S",
        temperature=0.5)
    assert asked["messages"] == [SYSTEM, {"role": "user", "content": "a"}, USER]
    assert (asked["temperature"], asked["top_k"], asked["min_p"]) == (0.5, 7, 0.1)


@pytest.mark.parametrize("entry", [{"set": None, "strip": ()}, {"set": {}, "strip": ()}])
def test_an_alias_may_be_nothing_but_a_name(entry):
    assert not aliases_of([{"name": "a", "model": "m", **entry}])["a"].shapes


def test_it_tells_of_itself_as_of_its_model():
    alias = aliases_of([{"name": "fast", "model": "m", "set": SET, "strip": ()}])["fast"]
    told = alias.over({"name": "m:q4_0", "system": "of the model", "parameters": "top_k 7"}, "m:q4_0")
    assert (told["name"], told["parent"], told["system"]) == ("fast", "m:q4_0", "S")
    assert told["parameters"].splitlines()[:2] == ["top_k 7", f"{'temperature':<30} 0.5"]
