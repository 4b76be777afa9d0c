"""Stage `semantic_cache`: a chat is answered by what was answered to nearly the same one a while ago.

Nothing is shared between API keys, nor between requests that differ in anything but their last text. Without
`[semantic_cache]`, and without the header that asks for it, this costs a look at two values.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from blazar.errors import KnobRefused
from blazar.proxy.answer_cache import AnswerCache, Found
from blazar.proxy.exchange import Exchange, Reply
from blazar.proxy.json_scan import BodyReader
from blazar.proxy.keeping import KeepingSink
from blazar.proxy.likeness import Likeness
from blazar.proxy.pipeline import Forward
from blazar.proxy.question import Question, may_be_kept, question_of
from blazar.proxy.receipts import CACHE
from blazar.proxy.replay import Listener, replay
from blazar.telemetry.metrics import Metrics

KNOB: Final = CACHE.lower()
HIT, MISS, BYPASS = "hit", "miss", "bypass"
LONGEST: Final = 2 << 20
"""Bytes of the longest answer, as OpenAI's clients get it, that is looked at to be kept."""


class SemanticCache:
    def __init__(self, settings: Mapping[str, Any], likeness: Likeness, reader: BodyReader, metrics: Metrics,
                 digest_of: Callable[[str], str], clock: Callable[[], float], pace: Callable[[], None]) -> None:
        self._is_on: bool = settings["enabled"]
        self._cache = AnswerCache(settings["max_entries"], settings["ttl_secs"], settings["threshold"], clock,
                                  pace=pace)
        self._likeness = likeness
        self._reader = reader
        self._metrics = metrics
        self._digest_of = digest_of

    def __call__(self, exchange: Exchange, forward: Forward) -> Reply:
        wished = exchange.knobs.get(KNOB) if exchange.knobs else None
        if not (self._is_on if wished is None else wished):
            return forward(exchange)
        embedder = self._embedder(bool(wished))
        question = self._question(exchange, embedder) if embedder is not None else None
        if question is None or embedder is None:
            return self._noted(exchange, BYPASS, forward)
        found = self._cache.same(question.shape, question.text)
        vector = None
        if found is None:
            vector = self._likeness.vector(exchange, embedder["name"], question.text)
            if vector is None:
                return self._noted(exchange, BYPASS, forward)
            found = self._cache.nearest(question.shape, vector)
        if found is not None:
            return self._noted(exchange, HIT, lambda exchange: _replayed(exchange, found, question))
        return self._noted(exchange, MISS, lambda exchange: self._keep(exchange, forward, question, vector or []))

    def _noted(self, exchange: Exchange, outcome: str, forward: Forward) -> Reply:
        exchange.cache = outcome
        exchange.headers.append((CACHE, outcome))
        self._metrics.semantic_cache.add(exchange.model, outcome)
        return forward(exchange)

    def _embedder(self, wished: bool) -> dict[str, Any] | None:
        """The embedding model. Raises KnobRefused when there is none and the request itself wants the cache."""
        found = self._likeness.model()
        if found is None and wished:
            raise KnobRefused(knob=f"`{CACHE}: on`", reason="no embedding model is installed, by which questions could "
                              "be compared", remedy="pull one that embeds, or leave the header out")
        if found is None:
            self._likeness.warn_missing()
        return found

    def _question(self, exchange: Exchange, embedder: dict[str, Any]) -> Question | None:
        if not may_be_kept(exchange):
            return None
        asked = self._reader.whole(exchange.upstream_body)
        return question_of(exchange, asked, self._digest_of(exchange.model), embedder["digest"])

    def _keep(self, exchange: Exchange, forward: Forward, question: Question, vector: list[float]) -> Reply:
        listener = Listener(exchange)
        if exchange.dialect.relays:
            exchange.sink = KeepingSink(exchange.sink, exchange.stream, listener.body, LONGEST)
        else:
            exchange.listener = listener
        reply = forward(exchange)
        if reply.status == 200 and reply.complete and reply.error is None and not _breaks_form(exchange):
            kept = listener.kept()
            if kept is not None:
                self._cache.put(question.shape, question.text, vector, kept)
        return reply


def _replayed(exchange: Exchange, found: Found, question: Question) -> Reply:
    exchange.headers += [("Age", str(int(found.age))), ("X-Blazar-Cache-Similarity", f"{found.similarity:.4f}")]
    return replay(exchange, found.kept, question.wants_usage)


def _breaks_form(exchange: Exchange) -> bool:
    """Whether the answer is not what its request demanded, though it was let through."""
    sentinel = exchange.reshaping.sentinel if exchange.reshaping is not None else None
    return sentinel is not None and sentinel.verdict == "violated"
