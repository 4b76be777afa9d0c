"""OpenAI's form: what is refused, what passes unchanged, and its errors."""

import json

import pytest

from blazar.errors import ChildFailed, ModelForbidden, ModelNotFound, RequestRefused, Unauthenticated
from blazar.proxy.dialects import openai
from blazar.proxy.dialects.openai import OpenAIDialect
from blazar.proxy.json_scan import BodyReader
from tests.support.fake_supervisor import endpoint

DIALECT = OpenAIDialect()


def parse(body, operation="chat"):
    return DIALECT.parse(operation, body if isinstance(body, bytes) else json.dumps(body).encode(), {}, "r1")


@pytest.mark.parametrize(("operation", "path"), [("chat", "/v1/chat/completions"), ("completions", "/v1/completions")])
def test_the_body_passes_as_it_came(operation, path):
    body = b' {"stream" : true,\r\n "model":"m\\u002d1", "x": 1.0, "model":"m-2"}\n'
    exchange = parse(body, operation)
    assert exchange.upstream_body is exchange.body is body
    assert (exchange.upstream_path, exchange.asked, exchange.stream, exchange.id) == (path, "m-2", True, "r1")


@pytest.mark.parametrize("effort", [None, "low", "max", 7])
def test_how_hard_a_model_thinks_is_the_templates_to_read(effort):
    body = json.dumps({"model": "m", "reasoning_effort": effort}).encode()
    assert parse(body).upstream_body is body


@pytest.mark.parametrize(("own", "values"), [
    (None, {"enable_thinking": False}), ({"a": 1}, {"enable_thinking": False, "a": 1}),
    ({"enable_thinking": True}, {"enable_thinking": True}), (5, {"enable_thinking": False})])
@pytest.mark.parametrize("gathers", [False, True])
def test_no_thinking_is_told_in_words_that_engines_know(own, values, gathers):
    body = {"model": "m", "messages": [], "reasoning_effort": "none", "chat_template_kwargs": own}
    exchange = OpenAIDialect(via_stream=gathers).parse("chat", json.dumps(body).encode(), {}, "r1")
    asked = json.loads(exchange.upstream_body)
    assert asked["chat_template_kwargs"] == values and asked.get("stream", False) is gathers
    assert {**asked, "chat_template_kwargs": own} == {**body, **({"stream": True, "stream_options": {
        "include_usage": True}} if gathers else {})}


@pytest.mark.parametrize(("stream", "wanted"), [(None, False), (False, False), (True, True)])
def test_stream(stream, wanted):
    assert parse({"model": "m", "stream": stream}).stream is wanted
    assert parse({"model": "m"}).stream is False


def test_what_stock_sdks_send_is_left_to_the_child():
    """FC-09."""
    parse({"model": "m", "temperature": None, "max_tokens": None, "tools": None, "messages": {}, "stop": None})
    assert parse(b'{"model":"m","messages":[{"role":"user","content":"\\ud800"}]}').body.count(b"\\ud800") == 1


@pytest.mark.parametrize(("body", "why"), [
    ({}, "`model` is missing"), ({"model": None}, "`model` is missing"), ({"model": ""}, '`model` must be .* not ""'),
    ({"model": 5}, "`model` must be the name of a model, not 5"), ({"model": ["m"]}, "not a list"),
    ({"model": "m", "stream": "true"}, '`stream` must be true or false, not "true"'),
    ({"model": "m", "stream": 1}, "`stream`"), (b"[]", "JSON object"), (b"{", "not usable JSON")])
def test_refusals(body, why):
    with pytest.raises(RequestRefused, match=why):
        parse(body)


@pytest.mark.parametrize(("error", "status", "kind", "code"), [
    (RequestRefused("no"), 400, "invalid_request_error", "request-refused"),
    (Unauthenticated(), 401, "authentication_error", "unauthenticated"),
    (ModelForbidden("no"), 403, "permission_error", "model-forbidden"),
    (ModelNotFound(name="m", near=""), 404, "not_found_error", "model-not-found"),
    (ChildFailed("no"), 502, "server_error", "child-failed"),
    (KeyError("secret"), 500, "server_error", "error")])
def test_errors(error, status, kind, code):
    found, body = DIALECT.error(error)
    told = json.loads(body)["error"]
    assert (found, told["type"], told["code"], told["param"]) == (status, kind, code, None)
    assert told["message"] and "secret" not in told["message"]
    assert DIALECT.stream_error(error) == b"data: " + body + b"\n\n"


def test_models():
    entry = {"modified_at": "2026-01-01T00:00:00Z", "capabilities": ["completion"], "context_length": 2048}
    loaded = {"solo:q4_0": endpoint("solo:q4_0", ("127.0.0.1", 1), ctx=512)}
    listed = openai.models({"solo:q4_0": entry, "duo:q8_0": {**entry, "context_length": 0}}, loaded)
    common = {"object": "model", "created": 1767225600, "owned_by": "blazar", "capabilities": ["completion"]}
    assert listed == {"object": "list", "data": [
        {"id": "solo:q4_0", **common, "status": "loaded", "lane": "llamacpp", "context_length": 512,
         "max_context_length": 2048},
        {"id": "duo:q8_0", **common, "status": "not loaded", "lane": None, "context_length": None,
         "max_context_length": None}]}


TURNS = [{"role": "system", "content": "a _url\" of null"}, {"role": "user", "content": "b"}]


@pytest.mark.parametrize(("body", "plain"), [
    ({"messages": TURNS}, True), ({"messages": []}, True), ({}, False), ({"messages": "x"}, False),
    ({"messages": [*TURNS, {"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}]}, False),
    ({"messages": [{"role": "user", "content": None}]}, False), ({"messages": [{"content": "x", "name": None}]}, False),
    ({"messages": [{**TURNS[0], "tool_call_id": None}]}, False), ({"messages": [TURNS]}, False),
    ({"messages": TURNS, "tools": []}, False), ({"messages": TURNS, "prompt": {"multimodal_data": ["x"]}}, False)])
def test_what_is_surely_made_of_texts_alone_needs_no_search(body, plain):
    assert parse({"model": "m", **body}).plain is plain


def test_a_body_too_large_to_be_parsed_is_not_surely_plain():
    exchange = OpenAIDialect(BodyReader(scan_over=10)).parse(
        "chat", json.dumps({"model": "m", "messages": TURNS}).encode(), {}, "r1")
    assert not exchange.plain and exchange.upstream_body is exchange.body
