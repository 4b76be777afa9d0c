"""Stage `trace`: the exchange is under way; once it has ended it is counted, and its audit line is written.

Both a moment later: a client that asks again at once, as programs do, is not kept waiting for what is only noted. Where
one request follows the other, that is while the next one waits for its child; where many are under way it is done for
many at a time, which takes the processor less. Whoever reads the counts or the last requests has all noted first.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

from blazar.errors import BlazarError
from blazar.proxy.dialects.fields import public
from blazar.proxy.dialects.times import rfc3339
from blazar.proxy.endings import Endings
from blazar.proxy.exchange import ClientGone, ClientSlow, Exchange, Reply
from blazar.proxy.json import dumps
from blazar.proxy.ledger import Ledger
from blazar.proxy.pipeline import Forward
from blazar.telemetry.audit import AuditLog
from blazar.telemetry.metrics import MANY, Metrics

log = logging.getLogger("blazar.proxy")

CLIENT_LEFT: Final = 499
"""The status noted for a client that left before it was told one."""
LONGEST_NAME: Final = 200
"""Characters of the model's name, as the client wrote it, that are noted."""
WAITING: Final = 64
"""Requests that have ended and are not noted yet; with more they are noted at once."""


class Trace:
    def __init__(self, ledger: Ledger, metrics: Metrics, audit: AuditLog | None,
                 wall: Callable[[], float] = time.time) -> None:
        self._ledger = ledger
        self._finished = ledger.finished
        self._now = ledger.now
        self._wall = wall
        self._metrics = metrics
        self._overheads = metrics.overhead.series().fresh
        self._audit = audit
        self._endings = Endings(metrics)
        self._known = self._endings.known
        self._ended: list[tuple[Exchange, float, float, int, BaseException | None]] = []
        """What waits to be noted: arguments of `_note`."""
        self.soon: Callable[[], object] = _never
        """Has `settle` called in a moment, if nobody has called it by then."""

    def __call__(self, exchange: Exchange, forward: Forward) -> Reply:
        arrived_at = self._wall()
        if not exchange.started:
            exchange.started = self._now()
        error: BaseException | None = None
        status = 0
        try:
            self._ledger.enter(exchange)
            reply = forward(exchange)
            status, error = reply.status, reply.error
            return reply
        except BaseException as raised:
            error, status = raised, _status(exchange, raised)
            raise
        finally:
            self._ledger.leave(exchange)
            waiting = self._ended
            waiting.append((exchange, arrived_at, self._now(), status, error))
            if len(waiting) == 1:
                self.soon()
            elif len(waiting) > WAITING:
                self.settle()

    def meanwhile(self) -> None:
        """Somebody waits for a child: note what has ended, if nobody else is there to be served."""
        if self._ended and self._ledger.under_way() == 1:
            self.settle()

    def settle(self) -> None:
        """Note all that has ended."""
        if not self._ended:
            return
        ended, self._ended = self._ended, []
        for exchange, arrived_at, at, status, error in ended:
            try:
                self._note(exchange, arrived_at, at, status, error)
            except Exception:
                log.exception("the end of request %s could not be noted", exchange.id)

    def _note(self, exchange: Exchange, arrived_at: float, ended: float, status: int,
              error: BaseException | None) -> None:
        """Count a request that has ended, and write its audit line."""
        started, first_byte = exchange.started, exchange.first_byte
        key, usage, verdict, slug, gone = exchange.api_key, exchange.usage, None, None, False
        if usage is None:
            prompt_tokens, completion_tokens, estimated, truncated = 0, 0, False, False
        else:
            prompt_tokens, completion_tokens, estimated = usage.prompt_tokens, usage.completion_tokens, usage.estimated
            truncated = prompt_tokens < exchange.prompt_tokens and not estimated
        if exchange.reshaping is not None:
            verdict = _verdict_on(exchange)
        if error is not None:
            slug, gone = _slug(error), isinstance(error, ClientGone)
        words = (None if key is None else key.name, exchange.dialect.name, exchange.operation,
                 exchange.asked[:LONGEST_NAME], exchange.alias, exchange.model, exchange.stream, status, slug, gone,
                 estimated, truncated, verdict, exchange.coalesced, exchange.cache)
        ending = self._known.get(words) or self._endings.begin(words)
        ending.generations.n += 1
        if error is not None or truncated or verdict is not None:
            self._count(exchange, error, verdict, truncated)
        line = ending.line
        if first_byte:
            to_first = first_byte - started
            line["first_byte_ms"] = (to_first * 1e6 + 0.5) // 1 / 1000  # to the microsecond
            (ending.first_bytes or self._endings.answered(ending)).append(to_first)
            overheads = self._overheads
            overheads.append(exchange.overhead)
            if len(overheads) >= MANY:
                self._metrics.settle()
        else:
            line["first_byte_ms"] = None
        line["time"] = rfc3339(arrived_at)
        line["id"] = exchange.id
        line["prompt_tokens"] = prompt_tokens
        line["completion_tokens"] = completion_tokens
        line["load_ms"] = exchange.load_ns // 1000 / 1000
        line["queue_ms"] = exchange.queue_ns // 1000 / 1000
        line["total_ms"] = ((ended - started) * 1e6 + 0.5) // 1 / 1000
        written = dumps(line) + b"\n"
        self._finished.add(written, exchange.path)
        if self._audit is not None and not self._audit.write(written):
            self._metrics.audit_lost.add()

    def _count(self, exchange: Exchange, error: BaseException | None, verdict: str | None, truncated: bool) -> None:
        """What does not happen to most requests."""
        metrics = self._metrics
        if verdict is not None:
            metrics.structured.add(exchange.dialect.name, exchange.model, verdict)
        if isinstance(error, ClientSlow):
            metrics.slow_clients.add()
        elif isinstance(error, ClientGone):
            metrics.disconnects.add()
        elif error is None and truncated:
            metrics.truncated.add(exchange.model)
            log.warning("%s: the engine has cut a prompt of %d tokens to %d", exchange.model, exchange.prompt_tokens,
                        exchange.usage.prompt_tokens if exchange.usage else 0)


def _never() -> None:
    """Whoever has the stage calls `settle` itself."""


def _verdict_on(exchange: Exchange) -> str | None:
    """What the sentinel says of the answer's form; None when it was not asked, or there was no answer."""
    sentinel = exchange.reshaping.sentinel
    return (sentinel.verdict or None) if sentinel is not None else None


def _slug(error: BaseException) -> str | None:
    return public(error).slug if isinstance(error, Exception) and not isinstance(error, ClientGone) else None


def _status(exchange: Exchange, error: BaseException) -> int:
    """What the client was told, or is about to be."""
    if exchange.sink.started:
        return exchange.sink.status
    if isinstance(error, BlazarError):
        return error.status
    return CLIENT_LEFT if isinstance(error, ClientGone) else BlazarError.status
