"""What was given with a model (Modelfile: PARAMETER, SYSTEM, MESSAGE), or with the alias under which it was asked for,
added to a request that does not say otherwise. The alias's counts more.

It is added to the child's request, which is a chat completion in every dialect. OpenAI's bytes, which else go through
as they came, are written anew for such a model, and for no other.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from blazar.proxy.aliases import LIMITS, Alias, fill, is_system
from blazar.proxy.dialects.ollama_options import options
from blazar.proxy.exchange import Exchange
from blazar.proxy.json import dumps
from blazar.proxy.json_scan import BodyReader


class Preset:
    """`add` is called only for models that have something to add."""

    def __init__(self, reader: BodyReader) -> None:
        self._reader = reader

    def add(self, exchange: Exchange, defaults: Mapping[str, Any],
            sampler: Mapping[str, Any] = MappingProxyType({}), alias: Alias | None = None) -> None:
        """Put the `defaults` of the exchange's model under what its request says as `alias` shapes it; under those
        come `sampler`'s, which are fields of the child's request."""
        if not exchange.upstream_body:
            return  # it asks the model for no text
        asked = self._reader.whole(exchange.upstream_body)
        if alias is not None:
            alias.shape(exchange, asked)
        complete(asked, defaults)
        for field, value in sampler.items():
            fill(asked, field, value)
        exchange.upstream_body = dumps(asked)
        if exchange.dialect.relays:
            exchange.payload = asked
        else:
            exchange.stops = tuple(asked.get("stop") or ())
            exchange.answer_limit = next((asked[name] for name in LIMITS if isinstance(asked.get(name), int)), 0)


def complete(asked: dict[str, Any], defaults: Mapping[str, Any]) -> None:
    """Amend a chat completion, or a completion, in place."""
    for field, value in options({"options": defaults.get("parameters")}).items():
        fill(asked, field, value)
    turns = asked.get("messages")
    if isinstance(turns, list):
        asked["messages"] = _with_turns(turns, defaults)


def _with_turns(turns: list[Any], defaults: Mapping[str, Any]) -> list[Any]:
    """System text first (the request's own, if it has any), then the model's turns, then those of the request."""
    says = [is_system(turn) for turn in turns]
    leading = says.index(False) if False in says else len(says)
    first = turns[:leading]
    if not any(says) and defaults.get("system"):
        first = [{"role": "system", "content": defaults["system"]}]
    return [*first, *defaults.get("messages", ()), *turns[leading:]]
