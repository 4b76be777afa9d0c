"""API keys: who is calling, and which models they may use. One function for every route.

Keys are looked up and compared as SHA-256 digests, so the time says nothing about how close a guess came.
"""

import hashlib
import hmac
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from blazar.config.tables.api_keys import digest_of, names_of
from blazar.errors import BlazarError, KeyUnknown, ModelForbidden, OwnerOnly, Unauthenticated
from blazar.proxy.aliases import spelt
from blazar.proxy.api_key import ApiKey
from blazar.proxy.limits import Limits


class KeyRing:
    """The configured API keys. Without any, everybody is let in."""

    def __init__(self, entries: Iterable[Mapping[str, Any]], resolve: Callable[[str], str]) -> None:
        """`resolve` gives the canonical name of a model's reference, or raises a BlazarError."""
        self._resolve = resolve
        self.replace(entries)

    def replace(self, entries: Iterable[Mapping[str, Any]]) -> None:
        """From now on these are the API keys."""
        entries = tuple(entries)
        self._keys = [_api_key(name, entry) for name, entry in zip(names_of(entries), entries, strict=True)]
        self._by_digest = {key.digest: key for key in self._keys}
        self.mark: object = self._by_digest
        """Another one whenever the keys change."""

    @property
    def active(self) -> bool:
        return bool(self._keys)

    def all(self) -> tuple[ApiKey, ...]:
        return tuple(self._keys)

    def limits(self) -> Iterator[tuple[str, Limits]]:
        """What each API key may do, by its name."""
        return ((key.name, key.limits) for key in self._keys)

    def lightest(self) -> float:
        """The least weight that a key has; 1 without any."""
        return min((key.limits.weight for key in self._keys), default=1.0)

    def identify(self, headers: Mapping[str, str]) -> ApiKey | None:
        """The API key of a request's head (lower-case names); None when keys are off. Raises Unauthenticated."""
        if not self._keys:
            return None
        sent = _presented(headers)
        digest = hashlib.sha256(sent.encode("latin-1", "replace")).digest()
        found = self._by_digest.get(digest)
        if found is None or not hmac.compare_digest(digest, found.digest):
            raise KeyUnknown if sent else Unauthenticated
        return found

    def lets_in(self, key: ApiKey | None) -> bool:
        """Whether who came with `key`, or with none, would be let in as that now."""
        return self._by_digest.get(key.digest) == key if key is not None else not self._keys

    def check_model(self, key: ApiKey | None, model: str, alias: str = "") -> None:
        """Raises ModelForbidden when `key` may not use the model of this canonical name, asked for as `alias`."""
        if key is not None and not self.allows(key, model, alias):
            raise ModelForbidden(key_name=key.name, model=alias or model, allowed=", ".join(key.models))

    @staticmethod
    def check_owner(key: ApiKey | None, path: str) -> None:
        """Raises OwnerOnly for a key of certain models at a path that is for who looks after the server."""
        if key is not None and key.models:
            raise OwnerOnly(key_name=key.name, path=path)

    def allows(self, key: ApiKey | None, model: str, alias: str = "") -> bool:
        """A key that names a model may use it under every alias; one that names an alias, only as that."""
        if key is None or not key.models or any(self._means(reference, model) for reference in key.models):
            return True
        return bool(alias) and any(spelt(reference) == alias for reference in key.models)

    def _means(self, reference: str, model: str) -> bool:
        if reference.lower() == model:
            return True
        try:
            return self._resolve(reference) == model
        except BlazarError:
            return False


def _api_key(name: str, entry: Mapping[str, Any]) -> ApiKey:
    limits = Limits(entry.get("rpm"), entry.get("tpm"), entry.get("daily_tokens"), entry.get("max_concurrent"),
                    float(entry.get("weight") or 1))
    return ApiKey(name, digest_of(entry["key"]), tuple(entry.get("models") or ()), limits)


def _presented(headers: Mapping[str, str]) -> str:
    scheme, _, credential = headers.get("authorization", "").strip().partition(" ")
    if scheme.lower() == "bearer" and credential.strip():
        return credential.strip()
    return headers.get("x-api-key", "").strip()
