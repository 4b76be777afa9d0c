"""Stage `charge`: the tokens that one attempt has used, however it ended."""

from blazar.proxy.accounts import Accounts
from blazar.proxy.exchange import Exchange, Reply, Usage
from blazar.proxy.pipeline import Forward
from blazar.telemetry.metrics import Metrics

NOTHING = Usage()


class Charge:
    def __init__(self, accounts: Accounts, metrics: Metrics) -> None:
        self._accounts = accounts
        self._metrics = metrics

    def __call__(self, exchange: Exchange, forward: Forward) -> Reply:
        account = self._accounts.get(exchange.api_key.name) if exchange.api_key is not None else None
        exchange.sent, exchange.usage = 0.0, None
        try:
            return forward(exchange)
        finally:
            usage = exchange.usage or NOTHING
            if account is not None:
                account.spend(usage.prompt_tokens, usage.completion_tokens, exchange.model)
            name = account.name if account is not None else ""
            self._metrics.prompt_tokens.add(name, exchange.model, by=usage.prompt_tokens)
            self._metrics.completion_tokens.add(name, exchange.model, by=usage.completion_tokens)
