"""docs/openai.md names every field that OpenAI's own client can send, and tells what becomes of it: the rows are tried
on the code itself."""

import json
import re
from pathlib import Path

import pytest

from blazar.errors import RequestRefused
from blazar.proxy.dialects import openai_batches, rerank
from blazar.proxy.dialects.openai import OpenAIDialect
from blazar.proxy.exchange import Embedded

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


def parsed(operation, **body):
    return OpenAIDialect().parse(operation, json.dumps({"model": "m", **body}).encode(), {}, "r")


def embedded(body):
    exchange = parsed("embeddings", **{"input": ["a", "b"], **body})
    answer = exchange.dialect.render_embedded(exchange, Embedded(vectors=[[1.0], [2.0]], prompt_tokens=2))
    return exchange.asked, exchange.inputs, json.loads(answer)["data"]


def reranked(body):
    exchange = parsed("rerank", **{"query": "q", "documents": ["a", "b"], **body})
    return exchange.asked, exchange.draft, rerank.ranked(exchange, [1.0, 2.0], 2)["results"]


def batched(body):
    return openai_batches.wanted({"input_file_id": "file-1", "endpoint": "/v1/completions", "completion_window": "24h",
                                  **body}, 0)


def sent(body):
    """Of a file only the form's other fields are read here; the file itself goes to the disk."""
    fields = {"purpose": "batch", "expires_after[anchor]": "created_at", "expires_after[seconds]": "3600", **body}
    return openai_batches.purpose(fields), openai_batches.lifetime(fields)


def chatted(body):
    exchange = parsed("chat", messages=[], **body)
    return exchange.asked, exchange.upstream_body


TRIED = [
    # heading, function, and for each field that is not passed on as it came another value
    ("`POST /v1/chat/completions`", chatted, {"model": "n", "reasoning_effort": "none"}),
    ("`POST /v1/embeddings`", embedded, {
        "model": "n", "input": "c", "encoding_format": "base64", "dimensions": 1, "late_chunking": True, "user": "u"}),
    ("`POST /v1/rerank`, `POST /rerank`", reranked, {
        "model": "n", "query": "p", "documents": ["c", "d"], "top_n": 1, "return_documents": False,
        "rank_fields": ["a"], "max_chunks_per_doc": 1, "max_tokens_per_doc": 1}),
    ("`POST /v1/batches`", batched, {
        "input_file_id": "file-2", "endpoint": "/v1/embeddings", "completion_window": "48h", "metadata": {"a": "b"},
        "output_expires_after": {"anchor": "created_at", "seconds": 3600}}),
    ("`POST /v1/files`", sent, {"purpose": "fine-tune", "expires_after[seconds]": "7200"}),
]


@pytest.mark.parametrize(("heading", "what", "field", "value"), [
    (heading, what, field, value) for heading, what, fields in TRIED for field, value in fields.items()])
def test_the_fate_of_a_field_is_as_told(heading, what, field, value):
    fate = told(heading)[field.partition("[")[0]]
    if fate == "refused" or (field, value) == ("purpose", "fine-tune"):
        with pytest.raises(RequestRefused):
            what({field: value})
    else:
        assert (what({field: value}) == what({})) == (fate == "ignored")


def test_every_field_that_is_read_is_tried():
    for heading, _, fields in TRIED[1:4]:
        assert set(fields) == set(told(heading))
