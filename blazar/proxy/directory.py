"""`Directory`: the gateway's own copy of what is installed and what is loaded, as the supervisor last pushed it.

A request to a loaded model reads only this. It may be a moment old: a child that has just died is found out by
the attempt that meets it, which calls `suspect` and asks the supervisor instead.
"""

from typing import Any

from blazar.store.resolve import resolve
from blazar.transport import Endpoint

REMEMBERED = 1024
"""Spellings whose canonical name is kept; beyond that the memory starts anew."""


class Directory:
    """Models, aliases and endpoints; `replace` swaps all of them at once."""

    def __init__(self, snapshot: dict[str, Any] | None = None) -> None:
        self.replace(snapshot or {})

    def replace(self, snapshot: dict[str, Any]) -> None:
        self.models: dict[str, dict[str, Any]] = snapshot.get("models", {})
        self.aliases: dict[str, str] = snapshot.get("aliases", {})
        self.endpoints = {model: Endpoint.from_dict(plain) for model, plain in snapshot.get("children", {}).items()}
        self.started_at: float = snapshot.get("started_at", 0.0)
        self._canonical: dict[str, str] = {}

    def resolve(self, reference: str) -> str:
        """The canonical name behind `reference`. Raises NameRefused, ModelNotFound or ModelAmbiguous."""
        known = self._canonical.get(reference)
        if known is None:
            known = resolve(reference, self.models, self.aliases)
            if len(self._canonical) >= REMEMBERED:
                self._canonical = {}
            self._canonical[reference] = known
        return known

    def endpoint(self, model: str) -> Endpoint | None:
        return self.endpoints.get(model)

    def child_ids(self) -> set[str]:
        return {endpoint.child_id for endpoint in self.endpoints.values()}

    def suspect(self, endpoint: Endpoint) -> None:
        """Forget an endpoint that did not answer, so that the next attempt asks the supervisor."""
        if self.endpoints.get(endpoint.model) == endpoint:
            del self.endpoints[endpoint.model]
