"""What is left of an API key's limits, as response headers: in OpenAI's form, for Anthropic's clients in its own too.

Only keys with such limits have them. Ollama knows none of its own, so its clients get OpenAI's.
"""

import math
import time

from blazar.proxy.accounts import Account
from blazar.proxy.dialects.times import rfc3339
from blazar.proxy.sliding import WINDOW

Header = tuple[str, str]

LIMIT_REQUESTS, LEFT_REQUESTS, RESET_REQUESTS, LIMIT_TOKENS, LEFT_TOKENS, RESET_TOKENS = _OPENAI = tuple(
    f"x-ratelimit-{what}-{of}" for of in ("requests", "tokens") for what in ("limit", "remaining", "reset"))
_ANTHROPIC = {of: tuple(f"anthropic-ratelimit-{of}-{what}" for what in ("limit", "remaining", "reset"))
              for of in ("requests", "tokens")}
RATE_HEADERS = (*_OPENAI, *(name for names in _ANTHROPIC.values() for name in names))
MINUTE = "1m0s"
_REQUESTS_IN_A_MINUTE, _TOKENS_IN_A_MINUTE = (RESET_REQUESTS, MINUTE), (RESET_TOKENS, MINUTE)


def rate_headers(account: Account, dialect: str, counted: bool = False) -> list[Header]:
    """The headers for an answer in this dialect.

    `counted`: to a request that was let in at this moment. What it takes is there again in a minute, which needs no
    reckoning.
    """
    headers: list[Header] = []
    limits, ours = account.limits, dialect == "anthropic"
    requests, limit, tokens, of_day = account.left()
    if limits.rpm is not None:
        reset = WINDOW if counted else account.requests_reset()
        headers += ((LIMIT_REQUESTS, str(limits.rpm)), (LEFT_REQUESTS, str(requests)),
                    _REQUESTS_IN_A_MINUTE if counted else (RESET_REQUESTS, duration(reset)))
        if ours:
            headers += _anthropic("requests", limits.rpm, requests, reset)
    if limit:
        slides = counted and not of_day
        reset = WINDOW if slides else account.tokens_reset(of_day)
        headers += ((LIMIT_TOKENS, str(limit)), (LEFT_TOKENS, str(tokens)),
                    _TOKENS_IN_A_MINUTE if slides else (RESET_TOKENS, duration(reset)))
        if ours:
            headers += _anthropic("tokens", limit, tokens, reset)
    return headers


def _anthropic(of: str, limit: int, left: int, reset: float) -> tuple[Header, ...]:
    names = _ANTHROPIC[of]
    return ((names[0], str(limit)), (names[1], str(left)),
            (names[2], rfc3339(float(math.ceil(time.time() + reset)))))


def duration(seconds: float) -> str:
    """As OpenAI writes it: 1h2m3s, 6m0s, 1.5s, 20ms, 0s."""
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms" if seconds > 0 else "0s"
    if seconds < 60:
        return f"{math.ceil(seconds * 10) / 10:g}s"
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{rest}s" if hours else f"{minutes}m{rest}s"
