"""`Directory`: the gateway's own copy of what is installed and what is loaded, as the supervisor last pushed it.

A request to a loaded model reads only this. It may be a moment old: a child that has just died is found out by
the attempt that meets it, which calls `suspect` and asks the supervisor instead.
"""

from collections.abc import Mapping
from typing import Any, Final

from blazar.errors import AliasHollow, BlazarError, ModelNotFound
from blazar.proxy.aliases import Alias
from blazar.store.name import parse
from blazar.store.resolve import resolve
from blazar.transport import Endpoint

REMEMBERED: Final = 1024
"""Spellings whose canonical name is kept; beyond that the memory starts anew."""


class Directory:
    """Models, aliases and endpoints; `replace` swaps all of them at once.

    `aliases` are names that the store knows, `presets` those of the configuration.
    """

    def __init__(self, snapshot: dict[str, Any] | None = None) -> None:
        self.presets: Mapping[str, Alias] = {}
        self._most: set[str] = set()
        """Children that cannot be had with a larger context."""
        self.replace(snapshot or {})

    def replace(self, snapshot: dict[str, Any]) -> None:
        """Take over what the supervisor has just told; the suspects are forgotten with the rest."""
        self.mark = object()
        """Another one whenever models, aliases or endpoints may have changed."""
        self.models: dict[str, dict[str, Any]] = snapshot.get("models", {})
        self.aliases: dict[str, str] = snapshot.get("aliases", {})
        self.endpoints = {model: Endpoint.from_dict(plain) for model, plain in snapshot.get("children", {}).items()}
        self.workers: int = snapshot.get("workers", 1)
        """Gateway workers that use the children at this time."""
        self.started_at: float = snapshot.get("started_at", 0.0)
        self._canonical: dict[str, str] = {}
        self._presets: dict[str, Alias] = {}
        """By the spellings of `_canonical` that mean one."""
        self._suspects: set[str] = set()
        self._most &= self.child_ids()

    def resolve(self, reference: str) -> str:
        """The canonical name behind `reference`. Raises NameRefused, ModelNotFound or ModelAmbiguous."""
        known = self._canonical.get(reference)
        if known is None:
            preset = self._preset(reference) if self.presets else None
            known = self.resolve_model(reference) if preset is None else self._target(preset)
            if len(self._canonical) >= REMEMBERED:
                self._canonical, self._presets = {}, {}
            self._canonical[reference] = known
            if preset is not None:
                self._presets[reference] = preset
        return known

    def resolve_model(self, reference: str) -> str:
        """The same, as if there were no `presets`."""
        return resolve(reference, self.models, self.aliases)

    def preset(self, reference: str) -> Alias | None:
        """The one of `presets` that a reference means which has just been resolved."""
        return self._presets.get(reference)

    def _preset(self, reference: str) -> Alias | None:
        name = str(parse(reference))
        return None if name in self.models else self.presets.get(name)

    def _target(self, preset: Alias) -> str:
        try:
            return self.resolve_model(preset.model)
        except ModelNotFound as error:
            raise AliasHollow(alias=preset.name, model=preset.model) from error

    def preset_entries(self) -> dict[str, dict[str, Any]]:
        """What lists show of the `presets` whose models are installed, by name; `parent` is the model."""
        found = {}
        for name, preset in self.presets.items():
            try:
                target = self.resolve_model(preset.model)
            except BlazarError:
                continue
            if name not in self.models:
                found[name] = {**self.models[target], "name": name, "parent": target}
        return found

    def endpoint(self, model: str) -> Endpoint | None:
        """Where `model` is served; None when it is not loaded, or its child is suspected to be gone."""
        found = self.endpoints.get(model)
        return None if found is not None and found.child_id in self._suspects else found

    def reads(self, model: str, tokens: int) -> Endpoint | None:
        """The same, but None for a child that reads fewer tokens at once and may yet be started anew with more."""
        found = self.endpoint(model)
        if found is not None and found.ctx < tokens and found.child_id not in self._most:
            return None
        return found

    def note_most(self, endpoint: Endpoint) -> None:
        """The supervisor has nothing larger than this endpoint's context."""
        self._most.add(endpoint.child_id)

    def child_ids(self) -> set[str]:
        return {endpoint.child_id for endpoint in self.endpoints.values()}

    def suspect(self, endpoint: Endpoint) -> None:
        """Pass over an endpoint that did not answer, until the supervisor speaks of it again."""
        self._suspects.add(endpoint.child_id)

    def trust(self, endpoint: Endpoint) -> None:
        """The supervisor has just called this endpoint ready."""
        self._suspects.discard(endpoint.child_id)
