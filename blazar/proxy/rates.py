"""What is left of an API key's limits, as response headers: in OpenAI's form, for Anthropic's clients in its own too.

Only keys with such limits have them. Ollama knows none of its own, so its clients get OpenAI's.
"""

import math
from collections.abc import Callable
from typing import Final

from blazar.proxy.dialects.times import rfc3339
from blazar.proxy.limits import Left, Limits, to_midnight
from blazar.proxy.sliding import WINDOW

Header = tuple[str, str]

LIMIT_REQUESTS, LEFT_REQUESTS, RESET_REQUESTS, LIMIT_TOKENS, LEFT_TOKENS, RESET_TOKENS = _OPENAI = tuple(
    f"x-ratelimit-{what}-{of}" for of in ("requests", "tokens") for what in ("limit", "remaining", "reset"))
_ANTHROPIC: Final = {of: tuple(f"anthropic-ratelimit-{of}-{what}" for what in ("limit", "remaining", "reset"))
              for of in ("requests", "tokens")}
RATE_HEADERS: Final = (*_OPENAI, *(name for names in _ANTHROPIC.values() for name in names))
MINUTE: Final = "1m0s"
_REQUESTS_IN_A_MINUTE, _TOKENS_IN_A_MINUTE = (RESET_REQUESTS, MINUTE), (RESET_TOKENS, MINUTE)


class RateHeaders:
    """The headers for one API key, with what never changes in them."""

    def __init__(self, limits: Limits, wall: Callable[[], float]) -> None:
        self._wall = wall
        self._rpm, self._tpm, self._daily = (
            (name, str(limit)) if limit is not None else None for name, limit in
            ((LIMIT_REQUESTS, limits.rpm), (LIMIT_TOKENS, limits.tpm), (LIMIT_TOKENS, limits.daily_tokens)))

    def of(self, left: Left, dialect: str, resets: tuple[float, float] | None = None) -> list[Header]:
        """Those for an answer in this dialect, when this is left.

        `resets` are the seconds until all of a minute's requests and tokens are there again; None for a request that
        was let in at this moment. What it takes is there again in a minute, which needs no reckoning.
        """
        requests, tokens, of_day = left
        headers: list[Header] = []
        if self._rpm is not None:
            headers += (self._rpm, (LEFT_REQUESTS, str(requests)),
                        _REQUESTS_IN_A_MINUTE if resets is None else (RESET_REQUESTS, duration(resets[0])))
        limit = self._daily if of_day else self._tpm
        if limit is not None:
            headers += (limit, (LEFT_TOKENS, str(tokens)),
                        _TOKENS_IN_A_MINUTE if resets is None and not of_day else
                        (RESET_TOKENS, duration(self._tokens_reset(of_day, resets))))
        if dialect == "anthropic":
            if self._rpm is not None:
                headers += self._anthropic("requests", self._rpm, requests, resets[0] if resets else WINDOW)
            if limit is not None:
                headers += self._anthropic("tokens", limit, tokens, self._tokens_reset(of_day, resets))
        return headers

    def _tokens_reset(self, of_day: bool, resets: tuple[float, float] | None) -> float:
        if of_day:
            return to_midnight(self._wall())
        return resets[1] if resets else WINDOW

    def _anthropic(self, of: str, limit: Header, left: int, reset: float) -> tuple[Header, ...]:
        names = _ANTHROPIC[of]
        return ((names[0], limit[1]), (names[1], str(left)),
                (names[2], rfc3339(float(math.ceil(self._wall() + reset)))))


def duration(seconds: float) -> str:
    """As OpenAI writes it: 1h2m3s, 6m0s, 1.5s, 20ms, 0s."""
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms" if seconds > 0 else "0s"
    if seconds < 60:
        return f"{math.ceil(seconds * 10) / 10:g}s"
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes}m{rest}s" if hours else f"{minutes}m{rest}s"
