"""Target: bodies made from valid requests of every route and dialect, spoilt as JSON and as bytes."""

import copy
from random import Random
from typing import Any

from tests.support.fuzz import shapes
from tests.support.fuzz.client import Broken, Client
from tests.support.fuzz.fault import Fault
from tests.support.fuzz.mutate import spoiled_json

TOOL = {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {"x": {"type": "string"}}}}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"x": "1"}'}}
PIXEL = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")
SCHEMA = {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "integer"}}}

VALID: list[tuple[str, str, str, dict[str, Any]]] = [
    # dialect, method, path, body
    ("openai", "POST", "/v1/chat/completions", {
        "model": "solo", "stream": True, "temperature": 0.5, "max_tokens": 5, "stop": ["x"], "seed": 1,
        "stream_options": {"include_usage": True}, "tools": [{"type": "function", "function": TOOL}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}},
        "messages": [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": [
            {"type": "text", "text": "hi"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64," + PIXEL}}]},
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
            {"role": "tool", "tool_call_id": "c1", "content": "ok"}]}),
    ("openai", "POST", "/v1/completions", {"model": "solo", "prompt": "x", "max_tokens": 5, "stream": False}),
    ("ollama", "POST", "/api/chat", {
        "model": "solo", "stream": True, "format": SCHEMA, "think": None,
        "options": {"temperature": 0.1, "num_predict": 5, "stop": ["x"], "seed": 1, "num_ctx": 100},
        "tools": [{"type": "function", "function": TOOL}],
        "messages": [{"role": "system", "content": "s"}, {"role": "user", "content": "hi", "images": [PIXEL]},
                     {"role": "assistant", "content": "", "thinking": "t", "tool_calls": [
                         {"function": {"name": "f", "arguments": {"x": "1"}}}]},
                     {"role": "tool", "tool_name": "f", "content": "ok"}]}),
    ("ollama", "POST", "/api/chat", {"model": "solo", "messages": [{"role": "user", "content": "x"}], "stream": False,
                                     "keep_alive": "5m", "format": "json", "think": "low"}),
    ("ollama", "POST", "/api/generate", {"model": "solo", "prompt": "x", "system": "s", "images": [PIXEL],
                                         "options": {"top_k": 4}, "stream": False}),
    ("ollama", "POST", "/api/generate", {"model": "solo", "prompt": "x", "raw": True, "format": SCHEMA}),
    ("anthropic", "POST", "/v1/messages", {
        "model": "solo", "max_tokens": 5, "stream": True, "system": [{"type": "text", "text": "s"}],
        "stop_sequences": ["x"], "temperature": 0.2, "top_k": 3, "thinking": {"type": "enabled", "budget_tokens": 1024},
        "tools": [{"name": "f", "description": "d", "input_schema": TOOL["parameters"]}],
        "tool_choice": {"type": "tool", "name": "f"}, "metadata": {"user_id": "u"},
        "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
        "messages": [{"role": "user", "content": [
            {"type": "text", "text": "hi"}, {"type": "document", "source": {"type": "text", "data": "d"}, "title": "t"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}},
            {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x"}]}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "t", "signature": "s"},
                                              {"type": "text", "text": "a"},
                                              {"type": "tool_use", "id": "c1", "name": "f", "input": {"x": 1}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": [
                {"type": "text", "text": "ok"}], "is_error": True}, {"type": "text", "text": "go on"}]}]}),
    ("anthropic", "POST", "/v1/messages", {"model": "solo", "max_tokens": 5, "messages": [
        {"role": "user", "content": "x"}]}),
    ("anthropic", "POST", "/v1/messages/count_tokens", {"model": "solo", "system": "s", "messages": [
        {"role": "user", "content": [{"type": "text", "text": "x"}]}]}),
    ("openai", "POST", "/v1/embeddings", {"model": "embed", "input": ["a", "b"], "encoding_format": "float",
                                          "dimensions": None, "user": "u"}),
    ("openai", "POST", "/v1/embeddings", {"model": "embed", "input": [[1, 2], [3]], "encoding_format": "base64"}),
    ("openai", "POST", "/v1/embeddings", {"model": "embed", "input": [1, 2, 3]}),
    ("ollama", "POST", "/api/embed", {"model": "embed", "input": ["a", ""], "truncate": True, "options": {},
                                      "dimensions": 2, "keep_alive": "5m"}),
    ("ollama", "POST", "/api/embeddings", {"model": "embed", "prompt": "x"}),
    ("ollama", "POST", "/api/show", {"model": "solo"}),
    ("ollama", "POST", "/api/show", {"name": "solo", "verbose": True}),
    ("ollama", "DELETE", "/api/delete", {"model": "nobody"}),
]
EXPECTED = {"200", "400", "403", "404", "413"}


class Bodies:
    """Statuses beyond EXPECTED are faults; the engine behind it reads every body that JSON allows."""

    def __init__(self, port: int) -> None:
        self._client = Client(port)

    def try_one(self, chance: Random, number: int) -> str:
        dialect, method, path, valid = chance.choice(VALID)
        body = spoiled_json(copy.deepcopy(valid), chance)
        kind = chance.choice([b"application/json", b"application/json; charset=utf-8", b"text/plain", b"\xff"])
        sent = b"%b %b HTTP/1.1\r\nHost: localhost\r\nContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (
            method.encode(), path.encode(), kind, len(body), body)
        try:
            answer = self._client.ask(sent)
            outcome = shapes.check(dialect, answer)
        except (Broken, shapes.Misshapen) as broken:
            raise Fault(f"{path}: {broken}", sent) from broken
        if outcome.split()[0] not in EXPECTED or "error" in outcome or "cut" in outcome:
            raise Fault(f"{path} answers {outcome}: {answer.body[:300]!r}", sent)
        return outcome

    def close(self) -> None:
        self._client.close()
