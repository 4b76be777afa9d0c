"""docs/openai.md names every field that OpenAI's own client can send, and what it says of each is tried."""

import json
import re
from pathlib import Path

import pytest

from blazar.errors import RequestRefused
from blazar.proxy.dialects import openai_batches
from blazar.proxy.dialects.rerank import ranked
from blazar.proxy.exchange import Embedded
from blazar.proxy.structured import constrain
from tests.support.wire import dialects

PAGE = (Path(__file__).parent.parent / "docs" / "openai.md").read_text()
WORDS = ("passed", "translated", "ignored", "refused")
OURS = {"chat": {"stream"}, "completions": {"stream"}, "embeddings": set(), "files": set(), "batches": set()}
"""Fields that the client's types have elsewhere."""


def told(heading):
    """The rows under a heading: each field, and what becomes of it."""
    section = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `(\w+)` \| (\w+) \| ", section, re.MULTILINE))
    assert rows and set(rows.values()) <= set(WORDS), heading
    return rows


def known(operation):
    pytest.importorskip("openai")
    from openai.types import batch_create_params, completion_create_params, embedding_create_params, file_create_params
    from openai.types.chat import completion_create_params as chat_create_params
    return set({
        "chat": chat_create_params.CompletionCreateParamsBase,
        "completions": completion_create_params.CompletionCreateParamsBase,
        "embeddings": embedding_create_params.EmbeddingCreateParams,
        "files": file_create_params.FileCreateParams,
        "batches": batch_create_params.BatchCreateParams}[operation].__annotations__)


@pytest.mark.parametrize("operation, heading", [
    ("chat", "`POST /v1/chat/completions`"), ("completions", "`POST /v1/completions`"),
    ("embeddings", "`POST /v1/embeddings`"), ("files", "`POST /v1/files`"), ("batches", "`POST /v1/batches`")])
def test_every_field_is_told(operation, heading):
    assert known(operation) - set(told(heading)) == set()


def test_no_field_is_made_up():
    assert set(told("`POST /v1/files`")) == known("files") and set(told("`POST /v1/batches`")) == known("batches")


# -- what is told is tried -----------------------------------------------------------------------------------

HEADINGS = {"chat": "`POST /v1/chat/completions`", "completions": "`POST /v1/completions`"}
PASSING = [(operation, name, fate) for operation, heading in HEADINGS.items() for name, fate in told(heading).items()]
FORM = {"type": "json_object"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
VALUES = {"n": 1, "stream": True, "store": True, "metadata": {"a": "b"}, "max_tokens": 5, "max_completion_tokens": 5,
          "model": "m", "response_format": FORM, "tools": [TOOL],
          "tool_choice": {"type": "function", "function": {"name": "f"}}}
LARGE = "x" * (300 << 10)
"""A body with it is not read whole: only of fields that the gateway wants anything is known."""


@pytest.mark.parametrize(("operation", "name", "fate"), PASSING)
def test_what_passes_does_and_what_is_carried_out_is_read(operation, name, fate):
    """What the engine gets are the bytes that came, so nothing can be dropped there."""
    fields = {"model": "m", "messages": [{"role": "user", "content": LARGE}], name: VALUES.get(name, "a value")}
    body = json.dumps(fields, indent=1).encode()
    exchange = dialects()["openai"].parse(operation, body, {}, "r")
    assert exchange.upstream_body == body
    if fate == "translated" or name in ("stream", "response_format"):
        assert exchange.payload[name] == fields[name], "it is read of a large body too"
    assert exchange.stream == (name == "stream")


def test_a_form_is_carried_out():
    asked = {"tools": [TOOL], "tool_choice": VALUES["tool_choice"]}
    assert constrain(asked, chat=True)[1]["response_format"]["json_schema"]["schema"] == {"type": "object"}
    asked = {"response_format": FORM}
    assert constrain(asked, chat=True)[1] is asked


READ_HERE = {
    # heading: (operation, the plainest request, each field with a value that asks for something)
    "`POST /v1/embeddings`": ("embeddings", {"model": "m", "input": "a"}, {
        "model": "n", "input": "b", "encoding_format": "base64", "dimensions": 1, "late_chunking": True, "user": "u"}),
    "`POST /v1/rerank`, `POST /rerank`": ("rerank", {"model": "m", "query": "q", "documents": ["a", "b"]}, {
        "model": "n", "query": "p", "documents": ["a", {"text": "c"}], "top_n": 1, "return_documents": False,
        "rank_fields": ["text"], "max_chunks_per_doc": 1, "max_tokens_per_doc": 9}),
}


def outcome(operation, fields):
    """All that a request asks, and the answer it gets, or "refused"."""
    try:
        exchange = dialects()["openai"].parse(operation, json.dumps(fields).encode(), {}, "r")
    except RequestRefused:
        return "refused"
    answer = ranked(exchange, [0.5, 0.7], 3) if operation == "rerank" else json.loads(
        exchange.dialect.render_embedded(exchange, Embedded([[0.5, 0.25]], 3)))
    return exchange.asked, exchange.inputs, exchange.draft, answer


@pytest.mark.parametrize(("heading", "name"), [(heading, name) for heading in READ_HERE for name in told(heading)])
def test_the_fate_of_a_field_that_is_read_here(heading, name):
    operation, plain, values = READ_HERE[heading]
    assert set(values) == set(told(heading))
    before, after = outcome(operation, plain), outcome(operation, {**plain, name: values[name]})
    assert {"refused": after == "refused", "ignored": after == before}.get(
        told(heading)[name], after not in (before, "refused")), (before, after)


def test_files():
    assert openai_batches.purpose({"purpose": "batch"}) == "batch"
    with pytest.raises(RequestRefused):
        openai_batches.purpose({"purpose": "fine-tune"})
    given = {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
    assert (openai_batches.lifetime({}), openai_batches.lifetime(given)) == (None, 3600)


@pytest.mark.parametrize(("name", "value"), [
    ("input_file_id", "file-2"), ("endpoint", "/v1/responses"), ("completion_window", "48h"),
    ("metadata", {"a": "b"}), ("output_expires_after", {"anchor": "created_at", "seconds": 7200})])
def test_batches(name, value):
    plain = {"input_file_id": "file-1", "endpoint": "/v1/embeddings", "completion_window": "24h"}
    assert told("`POST /v1/batches`")[name] == "translated"
    assert openai_batches.wanted(plain, 0) != openai_batches.wanted({**plain, name: value}, 0)
