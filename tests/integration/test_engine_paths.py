"""Rerank and llama-server's own paths against a running Blazar with its real engine."""

import json
import urllib.error
import urllib.request

import pytest

from tests.support.shell import Shell
from tests.support.tiny_gguf import tiny_gguf

CHAT, RANKS, WORDS = "solo:f32", "ranks:f32", "words:f32"


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Status and JSON of a request: a POST where there is a body."""
    shell = Shell(tmp_path_factory.mktemp("home"))
    for seed, (name, pooling) in enumerate({CHAT: 0, RANKS: 4, WORDS: 1}.items()):
        file = tiny_gguf(shell.home / f"{seed}.gguf", seed=seed, pooling=pooling, ctx=512)
        shell.ok("pull", str(file), "--name", name)
    shell.start()

    def asked(path, body=None):
        request = urllib.request.Request(shell.url + path, None if body is None else json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)["error"]["message"]

    yield asked
    shell.stop()


@pytest.mark.parametrize("path", ["/v1/rerank", "/rerank"])
def test_documents_are_ordered(ask, path):
    documents = [f"number {number}" for number in range(70)]  # more than one request to the engine
    status, answer = ask(path, {"model": RANKS, "query": "two", "documents": documents})
    scores = [row["relevance_score"] for row in answer["results"]]
    assert status == 200 and scores == sorted(scores, reverse=True) and answer["usage"]["total_tokens"] > 70
    assert sorted(row["index"] for row in answer["results"]) == list(range(70))
    assert all(row["document"]["text"] == documents[row["index"]] for row in answer["results"])
    status, best = ask(path, {"model": RANKS, "query": "two", "documents": documents, "top_n": 2,
                              "return_documents": False})
    assert [row["index"] for row in best["results"]] == [row["index"] for row in answer["results"][:2]]


def test_only_models_that_rank_do(ask):
    assert ask("/v1/rerank", {"model": WORDS, "query": "a", "documents": ["b"]}) == (
        400, f"{WORDS} does not support rerank: it has no 'rerank' among its capabilities (embedding); "
             "`blazar show NAME` tells what a model can do")
    assert ask("/v1/embeddings", {"model": RANKS, "input": "a"})[0] == 400


def test_tokens_there_and_back(ask):
    tokens = ask("/tokenize", {"model": CHAT, "content": "the cat"})[1]["tokens"]
    assert ask("/detokenize", {"model": CHAT, "tokens": tokens}) == (200, {"content": "the cat"})
    for body in ({}, {"tokens": ["a"]}, {"tokens": [-1]}, {"tokens": [99999]}):
        assert ask("/detokenize", {"model": CHAT, **body})[0] == 400
    assert ask("/tokenize", {"model": CHAT})[0] == 400


def test_a_model_without_marks_fills_no_gap(ask):
    status, message = ask("/infill", {"model": CHAT, "input_prefix": "a", "input_suffix": "b"})
    assert status == 400 and "no marks for gaps" in message


def test_slots_and_properties_of_what_is_loaded(ask):
    assert ask("/tokenize", {"model": CHAT, "content": "a"})[0] == 200
    status, slots = ask(f"/slots?model={CHAT}")
    assert status == 200 and slots[0]["n_ctx"] > 0
    status, properties = ask(f"/props?model={CHAT}")
    assert status == 200 and "default_generation_settings" in properties and "model_path" not in properties
    assert ask("/slots?model=nobody")[0] == 404


def test_nothing_is_moderated(ask):
    status, message = ask("/v1/moderations", {"input": "a"})
    assert status == 400 and "response_format" in message
