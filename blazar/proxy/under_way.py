"""What is under way in this gateway, for whoever asks, and how it is cancelled. Nothing of what was said is told."""

from collections.abc import Iterator
from typing import Any

from blazar.errors import RequestCancelled
from blazar.proxy.exchange import Exchange
from blazar.proxy.finished import MOST
from blazar.proxy.ledger import Ledger

WAITING = {"slot": "queued", "load": "loading"}
"""What a request is that waits, by what it waits for."""


def told(ledger: Ledger, key: str | None, finished: int, cancel: str | None) -> dict[str, Any]:
    """The requests of the API key of that name, or everybody's for None: those under way, the oldest first, and the
    last `finished`, the newest first. Those whose id is `cancel` are cancelled; how many is `cancelled`."""
    ended = [exchange for exchange in _of(ledger, key) if exchange.id == cancel] if cancel is not None else []
    for exchange in ended:
        exchange.end(RequestCancelled())
    now = ledger.now()
    rows = sorted((row(exchange, now) for exchange in _of(ledger, key)), key=lambda row: -row["age_secs"])
    return {"requests": rows, "finished": ledger.finished.last(min(finished, MOST), key), "cancelled": len(ended)}


def row(exchange: Exchange, now: float) -> dict[str, Any]:
    """One request that is under way; `tokens` counts the pieces that its child has sent, where those can be seen."""
    return {
        "id": exchange.id,
        "key": exchange.api_key.name if exchange.api_key is not None else None,
        "model": exchange.model or None,
        "alias": exchange.alias or None,
        "dialect": exchange.dialect.name,
        "path": exchange.path,
        "stream": exchange.stream,
        "state": state_of(exchange),
        "age_secs": round(max(0.0, now - exchange.started), 3),
        "tokens": exchange.call.meter.events if exchange.call is not None else 0,
        "client": exchange.peer() if exchange.peer is not None else "",
    }


def state_of(exchange: Exchange) -> str:
    """`queued`, `loading` or `running`; `waiting` for anything else that comes before."""
    return "running" if exchange.sent else WAITING.get(exchange.waits, "waiting")


def _of(ledger: Ledger, key: str | None) -> Iterator[Exchange]:
    return (exchange for exchange in ledger.exchanges()
            if key is None or (exchange.api_key is not None and exchange.api_key.name == key))
