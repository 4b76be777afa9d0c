"""The scores of an exchange's documents, from its child: one for each, in their order."""

from typing import Any

from blazar.errors import ChildFailed
from blazar.proxy.dialects.rerank import Ranking
from blazar.proxy.embedder import BATCH
from blazar.proxy.exchange import Exchange
from blazar.proxy.tokens import Fetch
from blazar.proxy.vectors import MAX_FLOAT32


def rerank(fetch: Fetch, exchange: Exchange) -> tuple[list[float], int]:
    """Scores, and the tokens that were read. Raises ChildFailed for an answer that is not one score a document."""
    asked: Ranking = exchange.draft
    scores: list[float] = []
    tokens = 0
    for start in range(0, len(asked.documents), BATCH):
        batch = asked.documents[start:start + BATCH]
        answer = fetch(exchange, "/v1/rerank", {"model": exchange.model, "query": asked.query, "documents": batch,
                                                "top_n": len(batch)})
        scores += _scores(exchange, answer, len(batch))
        usage = answer.get("usage")
        count = usage.get("prompt_tokens") if isinstance(usage, dict) else 0
        tokens += count if isinstance(count, int) else 0
    return scores, tokens


def _scores(exchange: Exchange, answer: dict[str, Any], count: int) -> list[float]:
    rows = answer.get("results")
    found = {row.get("index"): row.get("relevance_score") for row in rows if isinstance(row, dict)} \
        if isinstance(rows, list) else {}
    if set(found) != set(range(count)) or not all(_is_number(score) for score in found.values()):
        raise ChildFailed(model=exchange.model, reason=f"its answer is not one score for each of {count} documents")
    return [float(found[index] or 0) for index in range(count)]


def _is_number(score: Any) -> bool:
    return isinstance(score, int | float) and not isinstance(score, bool) and -MAX_FLOAT32 <= score <= MAX_FLOAT32
