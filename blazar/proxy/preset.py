"""What was given with a model (Modelfile: PARAMETER, SYSTEM, MESSAGE), added to a request that does not say otherwise.

It is added to the child's request, which is a chat completion in every dialect. OpenAI's bytes, which else go through
as they came, are written anew for such a model, and for no other.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from blazar.proxy.dialects.ollama_options import options
from blazar.proxy.exchange import Exchange
from blazar.proxy.json import dumps
from blazar.proxy.json_scan import BodyReader

LIMITS = ("max_tokens", "max_completion_tokens", "n_predict")
"""Names of one and the same limit."""
SYSTEM_ROLES = ("system", "developer")


class Preset:
    """`add` is called only for models that have something to add."""

    def __init__(self, reader: BodyReader) -> None:
        self._reader = reader

    def add(self, exchange: Exchange, defaults: Mapping[str, Any],
            sampler: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Put the `defaults` of the exchange's model under what its request says; under those come `sampler`'s, which
        are fields of the child's request."""
        if not exchange.upstream_body:
            return  # it asks the model for no text
        asked = self._reader.whole(exchange.upstream_body)
        complete(asked, defaults)
        for field, value in sampler.items():
            _fill(asked, field, value)
        exchange.upstream_body = dumps(asked)
        if exchange.dialect.relays:
            exchange.payload = asked
        else:
            exchange.stops = tuple(asked.get("stop") or ())


def complete(asked: dict[str, Any], defaults: Mapping[str, Any]) -> None:
    """Amend a chat completion, or a completion, in place."""
    for field, value in options({"options": defaults.get("parameters")}).items():
        _fill(asked, field, value)
    turns = asked.get("messages")
    if isinstance(turns, list):
        asked["messages"] = _with_turns(turns, defaults)


def _fill(asked: dict[str, Any], field: str, value: Any) -> None:
    names = LIMITS if field in LIMITS else (field,)
    if all(asked.get(name) is None for name in names):
        asked[field] = list(value) if isinstance(value, tuple) else value


def _with_turns(turns: list[Any], defaults: Mapping[str, Any]) -> list[Any]:
    """System text first (the request's own, if it has any), then the model's turns, then those of the request."""
    says = [isinstance(turn, dict) and turn.get("role") in SYSTEM_ROLES for turn in turns]
    leading = says.index(False) if False in says else len(says)
    first = turns[:leading]
    if not any(says) and defaults.get("system"):
        first = [{"role": "system", "content": defaults["system"]}]
    return [*first, *defaults.get("messages", ()), *turns[leading:]]
