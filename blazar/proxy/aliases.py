"""`Alias`: a name of the configuration for a model, and what requests under it have and lack.

It shapes the child's request, which is a chat completion in every dialect, so `set` and `strip` name that one's
fields. A field of the request itself wins over `set`, unless `strip` takes it out first.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from blazar.proxy.exchange import Exchange

LIMITS = ("max_tokens", "max_completion_tokens", "n_predict")
"""Names of one and the same limit."""
SYSTEM_ROLES = ("system", "developer")
TEMPLATE = "chat_template_kwargs"
OF_TOOLS = ("tool_choice", "parallel_tool_calls")
"""Fields that mean nothing where the tools were taken out."""

HEADER = "X-Blazar-Alias"
MODEL_HEADER = "X-Blazar-Model"


@dataclass(frozen=True)
class Alias:
    """One entry of [[alias]]; `model` is the reference that it stands for."""

    name: str
    """In lower case."""
    model: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    """What is set, without the system text."""
    system: str = ""
    strip: frozenset[str] = frozenset()

    @property
    def shapes(self) -> bool:
        """Whether requests under it differ from those for its model."""
        return bool(self.fields or self.system or self.strip)

    def shape(self, exchange: Exchange, asked: dict[str, Any]) -> None:
        """Amend `asked`, the request that the exchange's child is to get, in place."""
        self._take_out(asked)
        if not exchange.dialect.relays:
            self._take_out(exchange.payload)
        turns = asked.get("messages")
        for name, value in self.fields.items():
            if name == TEMPLATE:
                _fill_template(asked, value)
            else:
                fill(asked, name, value)
        if self.system and isinstance(turns, list) and not any(map(is_system, turns)):
            asked["messages"] = [{"role": "system", "content": self.system}, *turns]

    def _take_out(self, asked: dict[str, Any]) -> None:
        for name in self.strip:
            for other in LIMITS if name in LIMITS else (name, *OF_TOOLS) if name == "tools" else (name,):
                asked.pop(other, None)
        turns = asked.get("messages")
        if "system" in self.strip and isinstance(turns, list):
            asked["messages"] = [turn for turn in turns if not is_system(turn)]

    def over(self, described: Mapping[str, Any], target: str) -> dict[str, Any]:
        """`described`, which tells of its model in detail, as it tells of the alias."""
        lines = [described.get("parameters") or "", *(f"{name:<30} {_shown(value)}" for name, value in
                                                      self.fields.items())]
        return {**described, "name": self.name, "parent": target, "system": self.system or described.get("system"),
                "parameters": "\n".join(line for line in lines if line)}


def aliases_of(entries: Iterable[Mapping[str, Any]]) -> Mapping[str, Alias]:
    """The configured aliases by name."""
    made = (_alias(entry) for entry in entries)
    return MappingProxyType({alias.name: alias for alias in made})


def _alias(entry: Mapping[str, Any]) -> Alias:
    given = {name: _plain(value) for name, value in (entry.get("set") or {}).items()}
    system = given.pop("system", "")
    return Alias(spelt(entry["name"]), entry["model"], MappingProxyType(given), system,
                 frozenset(entry.get("strip") or ()))


def spelt(name: str) -> str:
    """An alias's name in the one spelling in which they are compared."""
    return name.lower().removesuffix(":latest")


def fill(asked: dict[str, Any], name: str, value: Any) -> None:
    """Set a field that the request leaves open; null is as if left out."""
    names = LIMITS if name in LIMITS else (name,)
    if all(asked.get(other) is None for other in names):
        asked[name] = list(value) if isinstance(value, tuple) else value


def is_system(turn: Any) -> bool:
    return isinstance(turn, dict) and turn.get("role") in SYSTEM_ROLES


def _fill_template(asked: dict[str, Any], value: Mapping[str, Any]) -> None:
    own = asked.get(TEMPLATE)
    if "messages" in asked and (own is None or isinstance(own, dict)):
        asked[TEMPLATE] = {**value, **(own or {})}


def _plain(value: Any) -> Any:
    """What a frozen configuration value is in JSON."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, tuple | list) else value


def _shown(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
