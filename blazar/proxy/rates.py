"""What is left of an API key's limits, as response headers: in OpenAI's form, for Anthropic's clients in its own too.

Only keys with such limits have them. Ollama knows none of its own, so its clients get OpenAI's.
"""

import math
import time

from blazar.proxy.accounts import Account, Room
from blazar.proxy.dialects.times import rfc3339

OPENAI = tuple(tuple(f"x-ratelimit-{what}-{of}" for what in ("limit", "remaining", "reset"))
               for of in ("requests", "tokens"))
ANTHROPIC = tuple(tuple(f"anthropic-ratelimit-{of}-{what}" for what in ("limit", "remaining", "reset"))
                  for of in ("requests", "tokens"))
RATE_HEADERS = tuple(name for names in (*OPENAI, *ANTHROPIC) for name in names)


def rate_headers(account: Account, dialect: str, expected: int = 0) -> list[tuple[str, str]]:
    """The headers for an answer in this dialect; `expected` tokens are about to be reserved for the request."""
    headers: list[tuple[str, str]] = []
    rooms = account.requests_left(), account.tokens_left(expected)
    for room, openai, anthropic in zip(rooms, OPENAI, ANTHROPIC, strict=True):
        if room is not None:
            limit, left = str(room.limit), str(room.left)
            headers += (openai[0], limit), (openai[1], left), (openai[2], duration(room.reset))
            if dialect == "anthropic":
                headers += (anthropic[0], limit), (anthropic[1], left), (anthropic[2], _moment(room))
    return headers


def duration(seconds: float) -> str:
    """As OpenAI writes it: 1h2m3s, 6m0s, 1.5s, 20ms, 0s."""
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms" if seconds > 0 else "0s"
    if seconds < 60:
        return f"{math.ceil(seconds * 10) / 10:g}s"
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{rest}s" if hours else f"{minutes}m{rest}s"


def _moment(room: Room) -> str:
    """When all is there again, to the second, not too early."""
    return rfc3339(float(math.ceil(time.time() + room.reset)))
