"""What is left of an API key's limits, as response headers: in OpenAI's form, for Anthropic's clients in its own too.

Only keys with such limits have them. Ollama knows none of its own, so its clients get OpenAI's.
"""

import math
import time

from blazar.proxy.accounts import Account
from blazar.proxy.dialects.times import rfc3339
from blazar.proxy.sliding import WINDOW

Header = tuple[str, str]

_OPENAI = {of: tuple(f"x-ratelimit-{what}-{of}" for what in ("limit", "remaining", "reset"))
           for of in ("requests", "tokens")}
_ANTHROPIC = {of: tuple(f"anthropic-ratelimit-{of}-{what}" for what in ("limit", "remaining", "reset"))
              for of in ("requests", "tokens")}
RATE_HEADERS = tuple(name for form in (_OPENAI, _ANTHROPIC) for names in form.values() for name in names)


def rate_headers(account: Account, dialect: str, counted: bool = False, expected: int = 0) -> list[Header]:
    """The headers for an answer in this dialect.

    `counted`: to a request that was let in at this moment, and is about to reserve `expected` tokens. What it takes is
    there again in a minute, which needs no reckoning.
    """
    headers: list[Header] = []
    limits, ours = account.limits, dialect == "anthropic"
    if limits.rpm is not None:
        reset = WINDOW if counted else account.requests_reset()
        headers += _three(limits.rpm, account.requests_left(), reset, "requests", ours)
    if limits.tpm is not None or limits.daily_tokens is not None:
        limit, left, of_day = account.tokens_left(expected)
        reset = WINDOW if counted and not of_day else account.tokens_reset(of_day)
        headers += _three(limit, left, reset, "tokens", ours)
    return headers


def _three(limit: int, left: int, reset: float, of: str, ours: bool) -> tuple[Header, ...]:
    """In OpenAI's form, and in Anthropic's if it is `ours`."""
    names = _OPENAI[of]
    here, rest, again = str(limit), str(left), "1m0s" if reset == WINDOW else duration(reset)
    openai = (names[0], here), (names[1], rest), (names[2], again)
    if not ours:
        return openai
    names, moment = _ANTHROPIC[of], rfc3339(float(math.ceil(time.time() + reset)))
    return (*openai, (names[0], here), (names[1], rest), (names[2], moment))


def duration(seconds: float) -> str:
    """As OpenAI writes it: 1h2m3s, 6m0s, 1.5s, 20ms, 0s."""
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms" if seconds > 0 else "0s"
    if seconds < 60:
        return f"{math.ceil(seconds * 10) / 10:g}s"
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{rest}s" if hours else f"{minutes}m{rest}s"
