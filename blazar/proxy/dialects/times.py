"""Times as clients of this API read them."""

from datetime import UTC, datetime

CENTURY = 100 * 365 * 86400.0
"""Seconds: what is kept for longer counts as kept for ever."""


def rfc3339(epoch: float) -> str:
    """`epoch` seconds as RFC 3339 in UTC: 0 -> '1970-01-01T00:00:00.000000Z'."""
    return datetime.fromtimestamp(epoch, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
