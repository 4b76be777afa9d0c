"""When the daemon looks for a newer engine build."""

START_DELAY = 300.0
"""Seconds after the start of the daemon in which nobody is asked."""


def wait(now: float, last: float | None, every: float) -> float | None:
    """Seconds until the next look; None = never. `last` is the time of the last one, None when there was none."""
    if every <= 0:
        return None
    due = 0.0 if last is None else last + every - now
    return max(due, min(START_DELAY, every))
