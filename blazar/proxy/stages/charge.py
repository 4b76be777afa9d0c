"""Stage `charge`: the tokens that one attempt has used, however it ended.

llama.cpp tells them at the end of every stream. Another engine may do so only when it is asked, so a stream of a model
of which that is not known yet, and that an API key is charged for, is asked for them.
"""

from typing import Final

from blazar.proxy.accounts import Accounts
from blazar.proxy.around import AroundSink
from blazar.proxy.exchange import Exchange, Reply, Usage
from blazar.proxy.json_scan import BodyReader
from blazar.proxy.pipeline import Forward
from blazar.proxy.usage_filter import ask_for_counts
from blazar.telemetry.metrics import Metrics

NOTHING: Final = Usage()
ASKED: Final = ("chat", "completions")
"""Operations whose streams can be asked for it."""


class Charge:
    def __init__(self, accounts: Accounts, metrics: Metrics, reader: BodyReader) -> None:
        self._accounts = accounts.by_name
        self._metrics = metrics
        accounts.count_in(metrics.prompt_tokens, metrics.completion_tokens)
        self._reader = reader
        self._tell: set[str] = set()
        """Models whose children tell their counts unasked."""

    def __call__(self, exchange: Exchange, forward: Forward) -> Reply:
        key = exchange.api_key
        account = self._accounts[key.name] if key is not None else None
        exchange.sent, exchange.usage = 0.0, None
        if account is not None and exchange.stream and exchange.model not in self._tell:
            self._ask(exchange)
        try:
            return forward(exchange)
        finally:
            usage = _of(exchange)
            if account is not None:
                account.spend(usage.prompt_tokens, usage.completion_tokens, exchange.model)
                if usage.timed:
                    self._tell.add(exchange.model)
                elif exchange.stream:
                    self._tell.discard(exchange.model)
            else:
                self._metrics.prompt_tokens.add("", exchange.model, by=usage.prompt_tokens)
                self._metrics.completion_tokens.add("", exchange.model, by=usage.completion_tokens)

    def _ask(self, exchange: Exchange) -> None:
        """Nothing is asked of a dialect that translates, which asks for them itself; nor where something stands between
        already, since it is a second attempt, or since the answer is kept as the child gives it."""
        if exchange.dialect.relays and exchange.operation in ASKED and not isinstance(exchange.sink, AroundSink):
            ask_for_counts(exchange, self._reader)


def _of(exchange: Exchange) -> Usage:
    return exchange.usage or NOTHING
