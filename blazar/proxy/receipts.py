"""Response headers that say what the gateway did."""

import time
from typing import Final

from blazar.proxy.exchange import Exchange

OVERHEAD: Final = "X-Blazar-Overhead-Ms"
STRUCTURED: Final = "X-Blazar-Structured-Output"
CACHE: Final = "X-Blazar-Cache"
COALESCED: Final = ("X-Blazar-Coalesced", "true")
"""The header that says that the answer was made for an identical request."""


def overhead(exchange: Exchange, heard: float = 0.0) -> tuple[str, str]:
    """The header that says how long the gateway itself kept this request, in milliseconds.

    To be called when the head goes out. Counted is the time from the request's last byte from the client to its last
    byte to the child, without the waits for a load and for a slot; and for an answer that is translated also the time
    from `heard`, when the child's bytes came from which its first bytes were made. The child's own work is not in it,
    nor is what follows the first byte.
    """
    now = time.monotonic()
    taken = exchange.sent - exchange.started - (exchange.load_ns + exchange.queue_ns) / 1e9
    if taken < 0.0:
        taken = 0.0
    if heard:
        taken += now - heard
    exchange.first_byte = now
    exchange.overhead = taken
    micros = int(taken * 1e6 + 0.5)
    whole = micros // 1000
    return (OVERHEAD, f"{whole}.{str(micros - whole * 1000 + 1000)[1:]}")


def headers_for(exchange: Exchange, status: int) -> list[tuple[str, str]]:
    """The exchange's headers for an answer of this status: a receipt goes only with what was made under it."""
    if status == 200:
        return exchange.headers
    return [header for header in exchange.headers if header[0] != STRUCTURED]


def structured(kind: str) -> tuple[str, str]:
    """The header that says which constraint the engine was given for its answer."""
    return (STRUCTURED, kind)
