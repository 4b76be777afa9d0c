"""Stage `quota`: the limits of the caller's API key, for a whole exchange.

Whether its tokens fit is asked here, once, for what the request may use. That much stays reserved until the exchange
has ended, whatever it waits for meanwhile; stage `charge` counts what each attempt has used.
"""

from blazar.errors import QuotaExceeded
from blazar.proxy.accounts import Accounts
from blazar.proxy.exchange import Exchange, Reply
from blazar.proxy.meter import expected_tokens
from blazar.proxy.pipeline import Forward
from blazar.telemetry.metrics import Metrics


class Quota:
    def __init__(self, accounts: Accounts, metrics: Metrics) -> None:
        self._accounts = accounts.by_name
        self._metrics = metrics

    def __call__(self, exchange: Exchange, forward: Forward) -> Reply:
        key = exchange.api_key
        if key is None:
            return forward(exchange)
        account = self._accounts[key.name]
        expected = expected_tokens(exchange)
        try:
            left = account.enter(expected, exchange.model)
        except QuotaExceeded as refusal:
            self._metrics.quota_refusals.add(account.name, refusal.limit)
            raise
        try:
            rates = account.rates
            if rates is not None:
                exchange.headers = exchange.headers + rates.of(left, exchange.dialect.name)
            return forward(exchange)
        finally:
            account.leave(expected)
