"""/v1/rerank: requests and answers."""

import json

import pytest

from blazar.errors import RequestRefused
from blazar.proxy.dialects.openai import OpenAIDialect
from blazar.proxy.dialects.rerank import ranked

PLAIN = {"model": "m", "query": "q", "documents": ["a", {"text": "b"}, "c"]}


def parse(**changes):
    body = json.dumps({**PLAIN, **changes}).encode()
    return OpenAIDialect().parse("rerank", body, {}, "req_1")


def test_the_best_come_first_with_their_texts():
    exchange = parse(top_n=2)
    assert exchange.needs == "rerank" and exchange.draft.documents == ["a", "b", "c"]
    assert ranked(exchange, [0.5, -1.0, 2.0], 7) == {
        "id": "req_1", "object": "list", "model": "m", "usage": {"prompt_tokens": 7, "total_tokens": 7}, "results": [
            {"index": 2, "relevance_score": 2.0, "document": {"text": "c"}},
            {"index": 0, "relevance_score": 0.5, "document": {"text": "a"}}]}


def test_without_texts_and_with_more_wanted_than_there_are():
    rows = ranked(parse(top_n=9, return_documents=False), [1.0, 2.0, 3.0], 1)["results"]
    assert rows == [{"index": index, "relevance_score": index + 1.0} for index in (2, 1, 0)]


@pytest.mark.parametrize("changes, words", [
    ({"query": ""}, "`query`"), ({"query": None}, "`query`"), ({"documents": "a"}, "`documents`"),
    ({"documents": []}, "1 to 2048"), ({"documents": ["a"] * 2049}, "1 to 2048"),
    ({"documents": ["a", {"title": "b"}]}, r"documents\[1\]"), ({"top_n": 0}, "`top_n`"), ({"top_n": "x"}, "`top_n`"),
    ({"rank_fields": ["title"]}, "`rank_fields`"), ({"return_documents": 1}, "`return_documents`")])
def test_what_is_wrong_is_told(changes, words):
    with pytest.raises(RequestRefused, match=words):
        parse(**changes)
