"""Stage `quota`: the limits of the caller's API key, for a whole exchange.

Whether its tokens fit is asked here, once, for what the request may use. That much stays reserved until the exchange
has ended, whatever it waits for meanwhile; stage `charge` counts what each attempt has used.
"""

from blazar.errors import QuotaExceeded
from blazar.proxy.accounts import Accounts
from blazar.proxy.exchange import Exchange, Reply
from blazar.proxy.meter import expected_tokens
from blazar.proxy.pipeline import Forward
from blazar.proxy.rates import rate_headers
from blazar.telemetry.metrics import Metrics


class Quota:
    def __init__(self, accounts: Accounts, metrics: Metrics) -> None:
        self._accounts = accounts
        self._metrics = metrics

    def __call__(self, exchange: Exchange, forward: Forward) -> Reply:
        if exchange.api_key is None:
            return forward(exchange)
        account = self._accounts.get(exchange.api_key.name)
        expected = expected_tokens(exchange)
        try:
            account.enter(expected, exchange.model)
        except QuotaExceeded as refusal:
            self._metrics.quota_refusals.add(account.name, refusal.limit)
            raise
        try:
            if account.limits.has_rates:
                exchange.headers = exchange.headers + rate_headers(account, exchange.dialect.name, counted=True)
            return forward(exchange)
        finally:
            account.leave(expected)
