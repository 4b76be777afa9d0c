"""docs/openai.md names every field that OpenAI's own client can send, and of rerank every field that is read."""

import re
from pathlib import Path

import pytest

openai = pytest.importorskip("openai")

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
