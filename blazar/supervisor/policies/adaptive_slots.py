"""One slot more for a child at which requests have waited for a minute."""

from blazar.supervisor.policies.window import SATURATED, Window

MOST = 4
"""Slots that are reached by adding."""
CALM = 5
"""Looks after which a share below that of saturation ends the counting."""


def look(now: float, window: Window | None, slots: int, in_flight: int) -> tuple[Window | None, bool]:
    """The counting after one more look, and whether a slot is to be added. It begins when a request waits, and ends
    when that was a passing thing: clients that ask again and again leave a gap now and then, which does not count."""
    waits = in_flight > slots
    if (window is None and not waits) or slots >= MOST:
        return None, False
    window = (window or Window(now)).look(waits)
    if window.looks >= CALM and window.share < SATURATED:
        return None, False
    return (None, True) if waits and window.is_over(now) else (window, False)
