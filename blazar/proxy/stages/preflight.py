"""Stage `preflight`: a prompt that the model cannot read whole is refused, with the numbers, and never cut.

Its size tells nearly always that it fits. Only when it may not, the child is asked for the exact count, which takes
none of its slots. What cannot be counted that way is left to the engine.
"""

from typing import Final

from blazar.errors import ChildFailed, ChildRefused, ChildSilent
from blazar.proxy.exchange import Exchange, Retryable
from blazar.proxy.meter import BYTES_A_TOKEN
from blazar.proxy.readiness import Readiness
from blazar.proxy.tokens import Fetch, asked_tokens, too_long

NEARLY: Final = 0.9
"""Share of the context from which an estimate asks for an exact count."""


class Preflight:
    def __init__(self, ready: Readiness, fetch: Fetch, on: bool) -> None:
        self._ready = ready
        self._fetch = fetch
        self._on = on

    def __call__(self, exchange: Exchange) -> None:
        known = exchange.endpoint
        limit = known.ctx if known is not None else exchange.context_length
        estimate = len(exchange.upstream_body) // BYTES_A_TOKEN
        if estimate > NEARLY * limit and limit and self._on and exchange.inputs is None:
            self._count(exchange)

    def _count(self, exchange: Exchange) -> None:
        if exchange.endpoint is None:
            exchange.endpoint = self._ready(exchange)
        asked = exchange.upstream_path, exchange.upstream_body
        try:
            tokens = asked_tokens(self._fetch, exchange)
        except (ChildFailed, ChildRefused, ChildSilent, Retryable):
            return
        finally:
            exchange.upstream_path, exchange.upstream_body = asked
            exchange.sent = 0.0  # nothing of the request itself has gone out
        if tokens is not None and tokens > exchange.endpoint.ctx > 0:
            raise too_long(exchange, tokens, exchange.endpoint.ctx)
        exchange.prompt_tokens = tokens or 0
