"""Stage `auth`: whether the caller's API key may use the model. The key itself was checked on the head."""

from blazar.proxy.auth import KeyRing
from blazar.proxy.exchange import Exchange


class Auth:
    def __init__(self, keys: KeyRing) -> None:
        self._keys = keys

    def __call__(self, exchange: Exchange) -> None:
        key = exchange.api_key
        if key is not None and key.models:
            self._keys.check_model(key, exchange.model, exchange.alias)
