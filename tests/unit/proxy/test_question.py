"""What of a chat is compared, what must be equal, and which chats are none of the cache's matters."""

import json

import pytest

from blazar.proxy.auth import ApiKey
from blazar.proxy.dialects.anthropic import AnthropicDialect
from blazar.proxy.dialects.ollama import OllamaDialect
from blazar.proxy.dialects.openai import OpenAIDialect
from blazar.proxy.question import LONGEST_TEXT, may_be_kept, question_of
from blazar.proxy.reshaping import Reshaping

USER = {"role": "user", "content": "why"}
OTHER = {"type": "image_url", "image_url": {"url": "data:image/png;base64,BBBB"}}
PICTURE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def parsed(dialect, operation, body, key="ann", model="m:q4", knobs=None):
    exchange = dialect.parse(operation, json.dumps(body).encode(), {}, "id")
    exchange.model, exchange.api_key = model, ApiKey("ann", key.encode()) if key else None
    exchange.knobs.update(knobs or {})
    return exchange


def question(*more, key="ann", model="m:q4", knobs=None, **fields):
    exchange = parsed(OpenAIDialect(), "chat", {"model": "M", "messages": [USER], **fields}, key, model, knobs)
    return question_of(exchange, json.loads(exchange.upstream_body), *more)


def says(content):
    return [{"role": "user", "content": content}]


def test_the_last_text_alone_may_differ():
    assert question().text == "why"
    assert question(messages=says("how")).shape == question().shape
    assert question(messages=says([{"type": "text", "text": "how"}, PICTURE])).text == "how"
    assert question(stream=True, stream_options={"include_usage": True}).shape == question(model="m:q4").shape
    assert question(stream=True, stream_options={"include_usage": True}).wants_usage and not question().wants_usage


SHAPES = [
    {"key": "bob"}, {"key": ""}, {"model": "n:q4"}, {"temperature": 0}, {"temperature": 1}, {"max_tokens": 3},
    {"stop": "x"}, {"seed": 1}, {"response_format": {"type": "json_object"}}, {"grammar": "root ::= \"a\""},
    {"user": "u"}, {"knobs": {"x-blazar-enforce": True}}, {"messages": [{"role": "system", "content": "s"}, USER]},
    {"messages": [USER, {"role": "assistant", "content": "a"}, USER]},
    {"messages": says([{"type": "text", "text": "why"}, PICTURE])},
    {"messages": says([PICTURE, {"type": "text", "text": "why"}])},
    {"messages": says([{"type": "text", "text": "why"}, OTHER])},
    {"messages": [{**USER, "name": "n"}]},
]


def test_whatever_else_shapes_the_answer_makes_another_shape():
    shapes = [question().shape, question("digest").shape, *(question(**fields).shape for fields in SHAPES)]
    assert len(set(shapes)) == len(SHAPES) + 2


def test_the_header_of_the_cache_itself_does_not():
    assert question(knobs={"x-blazar-cache": True}).shape == question().shape


@pytest.mark.parametrize("fields", [
    {"tools": [{"type": "function"}]}, {"n": 2}, {"logprobs": True}, {"store": True}, {"messages": []},
    {"messages": "why"}, {"messages": ["why"]}, {"messages": [{"role": "assistant", "content": "a"}]},
    {"messages": says("")}, {"messages": says("  \n")}, {"messages": says(None)}, {"messages": says([PICTURE])},
    {"messages": says([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])},
    {"messages": says([{"type": "text", "text": 7}])}, {"messages": says("x" * (LONGEST_TEXT + 1))}])
def test_no_question(fields):
    assert question(**fields) is None


@pytest.mark.parametrize(("dialect", "operation", "body", "kept"), [
    (OpenAIDialect(), "chat", {"messages": [USER]}, True),
    (OpenAIDialect(), "completions", {"prompt": "why"}, False),
    (OpenAIDialect(), "embeddings", {"input": "why"}, False),
    (OpenAIDialect(), "chat", {"messages": says("x" * (1 << 20))}, False),
    (OllamaDialect(), "chat", {"messages": [USER]}, True),
    (OllamaDialect(), "chat", {"messages": []}, False),
    (OllamaDialect(), "generate", {"prompt": "why"}, False),
    (AnthropicDialect(), "messages", {"messages": [USER], "max_tokens": 3}, True)])
def test_which_requests_are_looked_at(dialect, operation, body, kept):
    assert may_be_kept(parsed(dialect, operation, {"model": "m", **body})) is kept


@pytest.mark.parametrize(("tools", "kept"), [((), True), (("f",), False)])
def test_an_answer_that_must_be_a_call_is_not_kept(tools, kept):
    exchange = parsed(OpenAIDialect(), "chat", {"model": "m", "messages": [USER]})
    exchange.reshaping = Reshaping(tools, None, ())
    assert may_be_kept(exchange) is kept
