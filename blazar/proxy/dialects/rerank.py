"""/v1/rerank, in the shape of Jina's and Cohere's: what a request says, and the answer."""

from dataclasses import dataclass
from typing import Any

from blazar.errors import RequestRefused
from blazar.proxy.dialects.fields import boolean, integer, refuse
from blazar.proxy.exchange import Exchange

MOST = 2048
"""Documents of one request."""


@dataclass(frozen=True)
class Ranking:
    """Which documents are to be ordered by how well they answer the query, and how the answer is to look."""

    query: str
    documents: list[str]
    top_n: int
    """How many of them are wanted."""
    shown: bool
    """Whether their text is to be in the answer."""


def ranking(payload: dict[str, Any]) -> Ranking:
    """What a request wants ordered. Raises RequestRefused."""
    query = payload.get("query")
    if not isinstance(query, str) or not query.strip():
        refuse("query", "a text", query)
    given = payload.get("documents")
    if not isinstance(given, list):
        refuse("documents", "a list of texts, or of objects with a `text`", given)
    if not 1 <= len(given) <= MOST:
        refuse("documents", f"a list of 1 to {MOST}", len(given))
    if payload.get("rank_fields"):
        raise RequestRefused("`rank_fields` is not available: put all that counts into the `text` of each document")
    top_n = integer(payload, "top_n")
    if top_n is not None and top_n < 1:
        refuse("top_n", "a number from 1", top_n)
    documents = [_text(one, number) for number, one in enumerate(given)]
    return Ranking(query, documents, min(top_n or len(given), len(given)),
                   boolean(payload, "return_documents", default=True))


def _text(document: Any, number: int) -> str:
    text = document.get("text") if isinstance(document, dict) else document
    return text if isinstance(text, str) else refuse(f"documents[{number}]", "a text, or an object with a `text`", text)


def ranked(exchange: Exchange, scores: list[float], tokens: int) -> dict[str, Any]:
    """The answer, the best document first; `scores` are in the order of the documents."""
    asked: Ranking = exchange.draft
    best = sorted(range(len(scores)), key=lambda index: -scores[index])[:asked.top_n]
    rows = [{"index": index, "relevance_score": scores[index],
             **({"document": {"text": asked.documents[index]}} if asked.shown else {})} for index in best]
    return {"id": exchange.id, "object": "list", "model": exchange.asked, "results": rows,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens}}
