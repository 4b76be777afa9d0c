"""Stage `knobs`: per-request options. Those that are not active are refused when they are asked for, never ignored."""

from typing import Any, Final

from blazar.errors import KnobRefused
from blazar.proxy.exchange import Exchange
from blazar.proxy.head_facts import KNOB_PREFIX
from blazar.proxy.receipts import CACHE
from blazar.proxy.structured import ENFORCE

BODY_KNOBS: Final = {
    # dialect: the fields of its body that are ours and not its own
    "openai": frozenset({"mcp"}),
    "ollama": frozenset({"best_of", "cascade", "mcp"}),
    "anthropic": frozenset({"mcp"}),
    "responses": frozenset({"best_of", "mcp"}),
}
SWITCHES: Final = (ENFORCE, CACHE.lower())
"""Headers that say yes or no."""
SWITCH: Final = {"on": True, "true": True, "1": True, "off": False, "false": False, "0": False}
OPT_OUT: Final = ("mcp", "x-blazar-mcp")
"""Knobs whose value `none` asks for nothing."""


def knobs(exchange: Exchange) -> None:
    if exchange.knobs or not BODY_KNOBS[exchange.dialect.name].isdisjoint(exchange.payload):
        _settle(exchange)


def _settle(exchange: Exchange) -> None:
    asked: dict[str, Any] = {}
    for name in SWITCHES:
        if name in exchange.knobs:
            exchange.knobs[name] = _switch(name, exchange.knobs[name])
    asked.update((name, value) for name, value in exchange.knobs.items()
                 if name.startswith(KNOB_PREFIX) and name not in SWITCHES)
    for field in sorted(BODY_KNOBS[exchange.dialect.name]):
        if exchange.payload.get(field) is not None:
            asked[field] = exchange.payload[field]
    for knob, value in asked.items():
        if not (knob in OPT_OUT and value == "none"):
            raise KnobRefused(knob=knob, reason="this version does not have it", remedy="leave it out")


def _switch(name: str, value: str) -> bool:
    """Whether the header `name` switches something on, or off. Raises KnobRefused."""
    found = SWITCH.get(value.strip().lower())
    if found is None:
        raise KnobRefused(knob=f"`{name.title()}: {value[:40]}`", reason="it is neither yes nor no",
                          remedy="send `on` or `off`")
    return found
