"""Times as clients of this API read them."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

CENTURY: Final = 100 * 365 * 86400.0
"""Seconds: what is kept for longer counts as kept for ever."""


def rfc3339(epoch: float) -> str:
    """`epoch` seconds as RFC 3339 in UTC: 0 -> '1970-01-01T00:00:00.000000Z'."""
    micros = int(epoch * 1e6 + 0.5)
    second = micros // 1_000_000
    return f"{_second(second)}.{str(micros - second * 1_000_000 + 1_000_000)[1:]}Z"


@lru_cache(4)
def _second(epoch: int) -> str:
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%S")
