"""Stage `trace`: the exchange is under way; once it has ended it is counted, and its audit line is written."""

import logging
import time
from collections.abc import Callable
from typing import Any

from blazar.errors import BlazarError
from blazar.proxy.dialects.fields import public
from blazar.proxy.dialects.times import rfc3339
from blazar.proxy.exchange import ClientGone, ClientSlow, Exchange, Reply
from blazar.proxy.json import dumps
from blazar.proxy.ledger import Ledger
from blazar.proxy.pipeline import Forward
from blazar.telemetry.audit import AuditLog
from blazar.telemetry.metrics import Metrics, status_class

log = logging.getLogger("blazar.proxy")

CLIENT_LEFT = 499
"""The status noted for a client that left before it was told one."""
LONGEST_NAME = 200
"""Characters of the model's name, as the client wrote it, that are noted."""


class Trace:
    def __init__(self, ledger: Ledger, metrics: Metrics, audit: AuditLog | None,
                 wall: Callable[[], float] = time.time) -> None:
        self._ledger = ledger
        self._metrics = metrics
        self._audit = audit
        self._wall = wall

    def __call__(self, exchange: Exchange, forward: Forward) -> Reply:
        arrived_at = self._wall()
        exchange.started = exchange.started or self._ledger.now()
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
            verdict, truncated = verdict_on(exchange), is_truncated(exchange)
            self._count(exchange, status, error, verdict, truncated)
            line = audit_line(exchange, arrived_at, self._ledger.now(), status, error, verdict, truncated)
            self._ledger.finished.add(line, exchange.path)
            if self._audit is not None and not self._audit.write(dumps(line) + b"\n"):
                self._metrics.audit_lost.add()

    def _count(self, exchange: Exchange, status: int, error: BaseException | None, verdict: str | None,
               truncated: bool) -> None:
        metrics = self._metrics
        metrics.generations.add(exchange.dialect.name, exchange.operation, status_class(status))
        if exchange.first_byte:
            metrics.first_byte.observe(exchange.first_byte - exchange.started, exchange.model)
            metrics.overhead.observe(exchange.overhead)
        if verdict is not None:
            metrics.structured.add(exchange.dialect.name, exchange.model, verdict)
        if error is None:
            if truncated:
                metrics.truncated.add(exchange.model)
                log.warning("%s: the engine has cut a prompt of %d tokens to %d", exchange.model,
                            exchange.prompt_tokens, exchange.usage.prompt_tokens if exchange.usage else 0)
            return
        if isinstance(error, ClientSlow):
            metrics.slow_clients.add()
        elif isinstance(error, ClientGone):
            metrics.disconnects.add()


def audit_line(exchange: Exchange, arrived_at: float, ended: float, status: int, error: BaseException | None,
               verdict: str | None, truncated: bool) -> dict[str, Any]:
    """One line of the audit log: identity and outcome, never what was said. Durations are in milliseconds."""
    usage = exchange.usage
    return {
        "time": rfc3339(arrived_at),
        "id": exchange.id,
        "key": exchange.api_key.name if exchange.api_key is not None else None,
        "dialect": exchange.dialect.name,
        "operation": exchange.operation,
        "asked": exchange.asked[:LONGEST_NAME],
        "alias": exchange.alias or None,
        "model": exchange.model or None,
        "stream": exchange.stream,
        "status": status,
        "error": _slug(error) if error is not None else None,
        "client_gone": error is not None and isinstance(error, ClientGone),
        "prompt_tokens": usage.prompt_tokens if usage is not None else 0,
        "completion_tokens": usage.completion_tokens if usage is not None else 0,
        "estimated": usage is not None and usage.estimated,
        "truncated": truncated,
        "structure": verdict,
        "coalesced": exchange.coalesced,
        "cache": exchange.cache or None,
        "load_ms": exchange.load_ns // 1000 / 1000,
        "queue_ms": exchange.queue_ns // 1000 / 1000,
        "first_byte_ms": _ms(exchange.first_byte - exchange.started) if exchange.first_byte else None,
        "total_ms": _ms(ended - exchange.started),
    }


def verdict_on(exchange: Exchange) -> str | None:
    """What the sentinel says of the answer's form; None when it was not asked, or there was no answer."""
    sentinel = exchange.reshaping.sentinel if exchange.reshaping is not None else None
    return (sentinel.verdict or None) if sentinel is not None else None


def is_truncated(exchange: Exchange) -> bool:
    """Whether the engine says that it has read less than it was sent."""
    usage = exchange.usage
    return usage is not None and not usage.estimated and usage.prompt_tokens < exchange.prompt_tokens


def _slug(error: BaseException) -> str | None:
    return public(error).slug if isinstance(error, Exception) and not isinstance(error, ClientGone) else None


def _ms(seconds: float) -> float:
    """Milliseconds, to the microsecond."""
    return int(seconds * 1e6 + 0.5) / 1000


def _status(exchange: Exchange, error: BaseException) -> int:
    """What the client was told, or is about to be."""
    if exchange.sink.started:
        return exchange.sink.status
    if isinstance(error, BlazarError):
        return error.status
    return CLIENT_LEFT if isinstance(error, ClientGone) else BlazarError.status
