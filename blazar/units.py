"""Parse and print bytes, durations and rates. Used by every table and by every refusal that holds a number."""

import re
from datetime import UTC, datetime

_BYTE_STEPS = ("B", "KiB", "MiB", "GiB", "TiB")
_DURATION_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION_PART = re.compile(r"([0-9]+(?:\.[0-9]+)?)(ns|us|µs|ms|s|m|h)")


def format_bytes(count: int) -> str:
    """`count` bytes for people, in powers of 1024: 1536 -> '1.5 KiB'."""
    size = float(count)
    for step in _BYTE_STEPS[:-1]:
        if abs(size) < 1024:
            return f"{size:.0f} {step}" if step == "B" else f"{size:.1f} {step}"
        size /= 1024
    return f"{size:.1f} {_BYTE_STEPS[-1]}"


def format_duration(seconds: float) -> str:
    """`seconds` for people: 0.25 -> '250 ms', 90 -> '1 m 30 s', 7200 -> '2 h'."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 60:
        return f"{seconds:.1f} s" if seconds % 1 else f"{seconds:.0f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    parts = [(hours, "h"), (minutes, "m"), (rest, "s")]
    return " ".join(f"{count} {unit}" for count, unit in parts if count)


def timestamp(precision: str = "seconds") -> str:
    """This moment as RFC 3339 in UTC: '2026-01-02T03:04:05Z'. `precision` is a timespec of datetime's isoformat."""
    return datetime.now(UTC).isoformat(timespec=precision).replace("+00:00", "Z")


def parse_duration(text: str) -> float:
    """Seconds of a Go-style duration such as '1h30m', '5m', '-1m' or '0s'; a bare number is seconds.

    Raises ValueError for anything else; the text is never guessed at.
    """
    body = text.strip()
    sign = -1.0 if body.startswith("-") else 1.0
    body = body[1:] if body[:1] in ("+", "-") else body
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?", body):
        return sign * float(body)
    position, total = 0, 0.0
    for part in _DURATION_PART.finditer(body):
        if part.start() != position:
            break
        total += float(part[1]) * _DURATION_UNITS[part[2]]
        position = part.end()
    if not body or position != len(body):
        raise ValueError(f"{text!r} is not a duration; write seconds (300) or units (5m, 1h30m)")
    return sign * total
