"""What is left of an API key's limits, as response headers: in OpenAI's form, for Anthropic's clients in its own too.

Only keys with such limits have them. Ollama knows none of its own, so its clients get OpenAI's.
"""

import math
import time
from functools import lru_cache

from blazar.proxy.accounts import Account, Left, Limits
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


def rate_headers(account: Account, dialect: str) -> list[Header]:
    """The headers for an answer in this dialect."""
    left = account.left()
    return _headers(account.limits, left, dialect, account.requests_reset(), account.tokens_reset(left[2]))


def headers_once_counted(account: Account, left: Left, dialect: str) -> list[Header]:
    """The headers for the answer to a request that was let in at this moment, after which this is left.

    What it takes is there again in a minute, which needs no reckoning.
    """
    if left[2] or dialect == "anthropic":
        return _headers(account.limits, left, dialect, WINDOW, account.tokens_reset(True) if left[2] else WINDOW)
    return _openai(account.limits, left, _REQUESTS_IN_A_MINUTE, _TOKENS_IN_A_MINUTE)


def _headers(limits: Limits, left: Left, dialect: str, requests_reset: float, tokens_reset: float) -> list[Header]:
    headers = _openai(limits, left, (RESET_REQUESTS, duration(requests_reset)), (RESET_TOKENS, duration(tokens_reset)))
    if dialect == "anthropic":
        requests, tokens, of_day = left
        headers += _anthropic("requests", limits.rpm, requests, requests_reset)
        headers += _anthropic("tokens", limits.daily_tokens if of_day else limits.tpm, tokens, tokens_reset)
    return headers


def _openai(limits: Limits, left: Left, requests_reset: Header, tokens_reset: Header) -> list[Header]:
    requests, tokens, of_day = left
    headers: list[Header] = []
    if limits.rpm is not None:
        headers += (_told(LIMIT_REQUESTS, limits.rpm), (LEFT_REQUESTS, str(requests)), requests_reset)
    limit = limits.daily_tokens if of_day else limits.tpm
    if limit is not None:
        headers += (_told(LIMIT_TOKENS, limit), (LEFT_TOKENS, str(tokens)), tokens_reset)
    return headers


def _anthropic(of: str, limit: int | None, left: int, reset: float) -> tuple[Header, ...]:
    if limit is None:
        return ()
    names = _ANTHROPIC[of]
    return ((names[0], str(limit)), (names[1], str(left)),
            (names[2], rfc3339(float(math.ceil(time.time() + reset)))))


@lru_cache(256)
def _told(name: str, limit: int) -> Header:
    return name, str(limit)


def duration(seconds: float) -> str:
    """As OpenAI writes it: 1h2m3s, 6m0s, 1.5s, 20ms, 0s."""
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms" if seconds > 0 else "0s"
    if seconds < 60:
        return f"{math.ceil(seconds * 10) / 10:g}s"
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{rest}s" if hours else f"{minutes}m{rest}s"
